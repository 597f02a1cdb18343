"""Offsets of partitions: where they begin, where they end for a reader of committed records, what stood at a time."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # exported, though not by name

from headwater.connectors.kafka.client import Kafka
from headwater.rules.errors import NotFound

_SECONDS = 15.0
_ELECTION_SECONDS = 5.0
_ELECTION_PAUSE_SECONDS = 0.1
_ELECTION = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
_NAMED = 8
"""A cluster may have a thousand topics: an error names the nearest few."""
_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

Place = tuple[str, int]
"""A topic, as the cluster names it, and one of its partitions."""


def partitions(kafka: Kafka, topic: str) -> list[Place]:
    """The partitions of a topic (the catalogue's name). Raises NotFound, with the topics that there are."""
    try:
        topics = kafka.admin().list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise kafka.mapped(error, asked=f"Topic {topic} was to be read.") from error
    name = kafka.physical(topic)
    if name not in topics:
        prefix = kafka.config.prefix
        ours = sorted(found.removeprefix(prefix) for found in topics if found.startswith(prefix) and found[0] != "_")
        near = difflib.get_close_matches(topic, ours, _NAMED) or ours[:_NAMED]
        raise NotFound(
            f"Kafka at {kafka.config.bootstrap_servers} has no topic {topic}.",
            asked=f"Topic {topic} was to be read.",
            advice=f"There are: {', '.join(near)}{', …' if len(near) < len(ours) else ''}."
            if ours
            else "Run `headwater topics apply`.",
        )
    return [(name, partition) for partition in sorted(topics[name].partitions)]


def beginnings(kafka: Kafka, places: Iterable[Place]) -> dict[Place, int]:
    """The first offset that each partition still holds."""
    return _listed(kafka, dict.fromkeys(places, _EARLIEST))


def ends(kafka: Kafka, places: Iterable[Place]) -> dict[Place, int]:
    """The offset after the last one that a read_committed reader may see: the first open transaction ends it."""
    return _listed(kafka, dict.fromkeys(places, _LATEST))


def high_watermarks(kafka: Kafka, places: Iterable[Place]) -> dict[Place, int]:
    """The offset after the last record, also where an open transaction still hides it."""
    return _listed(kafka, dict.fromkeys(places, _LATEST), IsolationLevel.READ_UNCOMMITTED)


def at_time(kafka: Kafka, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
    """The first offset whose record is not older than the time; the end where all are older."""
    return at_times(kafka, dict.fromkeys(places, timestamp_ms))


def at_times(kafka: Kafka, times_ms: Mapping[Place, int]) -> dict[Place, int]:
    """The same with a time for each partition."""
    found = _listed(kafka, {place: OffsetSpec.for_timestamp(at) for place, at in times_ms.items()})
    last = ends(kafka, [place for place, offset in found.items() if offset < 0])
    return {place: last[place] if offset < 0 else offset for place, offset in found.items()}


def _listed(
    kafka: Kafka, wanted: dict[Place, OffsetSpec], level: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> dict[Place, int]:
    """A partition that is just changing its leader, or was made a moment ago, is asked again for a few seconds."""
    if not wanted:
        return {}
    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        try:
            return _answered(kafka, wanted, level)
        except KafkaException as error:
            if error.args[0].code() not in _ELECTION or time.monotonic() > deadline:
                raise kafka.mapped(error, asked="Offsets were to be listed.") from error
        _refresh(kafka, {topic for topic, _ in wanted})
        time.sleep(_ELECTION_PAUSE_SECONDS)


def _refresh(kafka: Kafka, topics: Iterable[str]) -> None:
    """Have the client ask who leads the topics: by itself it would stay with what it knew before, for minutes."""
    for topic in topics:
        with suppress(KafkaException):
            kafka.admin().list_topics(topic, timeout=_SECONDS)


def _answered(kafka: Kafka, wanted: dict[Place, OffsetSpec], level: IsolationLevel) -> dict[Place, int]:
    futures = kafka.admin().list_offsets(
        {TopicPartition(*place): spec for place, spec in wanted.items()},
        isolation_level=level,
        request_timeout=_SECONDS,
    )
    return {(at.topic, at.partition): future.result().offset for at, future in futures.items()}
