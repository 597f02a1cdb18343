"""What the benchmark reads of a cast on the log."""

from __future__ import annotations

import pytest
from fleet.story import CastLog

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import Unavailable
from headwater.schemas import codec
from headwater.schemas.cast_records import (
    CastEvent,
    CastEventKind,
    CastManifest,
    CastMember,
    CastProgress,
    CastState,
    ManifestKind,
    MemberState,
)
from headwater.schemas.records import Record
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, Topic
from headwater.stack.addresses import Addresses

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_EVENTS])
    return kafka


def produce(kafka: Kafka, *records: tuple[Topic, Record]) -> None:
    producer = kafka.producer()
    for topic, record in records:
        producer.produce(kafka.physical(topic), codec.encode(record), key=record.key(), partition=0)
    assert producer.flush(10) == 0
    producer.close()


def manifest(kind: ManifestKind, epoch: int) -> CastManifest:
    return CastManifest(name="weights", epoch=epoch, kind=kind, reason="")


def progress(host: str, state: CastState, at_us: int, epoch: int = 7) -> CastProgress:
    return CastProgress(
        epoch=epoch, name="weights", host=host, incarnation=1, rack="r0", state=state, chunks=1, received_bytes=1,
        outside_bytes=1, seconds=1.0, reason="", at_us=at_us,
    )  # fmt: skip


def member(host: str, state: MemberState) -> CastMember:
    return CastMember(
        host=host, incarnation=1, rack="r0", address="127.0.0.1:1", state=state, said_by=host, reason="", at_us=1
    )


def test_a_cast_is_told_by_its_epoch_and_timed_by_its_last_host(kafka: Kafka) -> None:
    # given an older cast of the name, and a newer one that two of three hosts have
    produce(
        kafka,
        (CAST_MEMBERS, member("a", MemberState.joined)),
        (CAST_MEMBERS, member("b", MemberState.joined)),
        (CAST_MEMBERS, member("b", MemberState.left)),
        (CAST_MANIFESTS, manifest(ManifestKind.announced, 6)),
        (CAST_MANIFESTS, manifest(ManifestKind.announced, 7)),
        (CAST_MANIFESTS, manifest(ManifestKind.sealed, 7)),
    )
    with CastLog(kafka) as log:
        log.wait(lambda: bool(log.casts), 10, "casts")
        announced_us = int(log.casts[7].announced_at * 1e6)
        produce(
            kafka,
            (CAST_PROGRESS, progress("a", CastState.installed, announced_us + 2_000_000)),
            (CAST_PROGRESS, progress("a", CastState.left, announced_us + 9_000_000)),
            (CAST_PROGRESS, progress("b", CastState.installed, announced_us + 3_000_000)),
            (CAST_PROGRESS, progress("b", CastState.installed, announced_us + 4_000_000)),
            (CAST_PROGRESS, progress("c", CastState.started, announced_us)),
            (CAST_PROGRESS, progress("c", CastState.installed, announced_us, epoch=6)),
            (CAST_EVENTS, CastEvent(
                epoch=7, host="a", incarnation=1, kind=CastEventKind.blamed, about_host="c", reason="", at_us=1
            )),
        )  # fmt: skip

        # when all is read, then the newer one is told alone, and the first time that a host had the file counts
        log.wait(lambda: bool(log.casts[7].events) and len(log.casts[7].progress) == 5, 10, "stories")
        told = log.newest("weights")
        assert told is log.casts[7]
        assert set(told.installed) == {"a", "b"}
        assert told.seconds(["a", "b"]) == pytest.approx(3.0, abs=1e-5)
        with pytest.raises(KeyError):
            told.seconds(["a", "c"])
        assert told.about(CastEventKind.blamed) == {"c"}
        assert told.about(CastEventKind.stalled) == set()
        assert told.sealed_at is not None
        assert log.joined() == {"a"}


def test_waiting_ends_with_the_reason(kafka: Kafka) -> None:
    with CastLog(kafka) as log:
        with pytest.raises(Unavailable, match="No bytes within 0 s"):
            log.wait(lambda: False, 0, "bytes")
        with pytest.raises(Unavailable, match="No bytes: it ended"):
            log.wait(lambda: False, 60, "bytes", lambda: "it ended")
