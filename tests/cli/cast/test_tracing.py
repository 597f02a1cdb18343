"""`headwater trace cast:…`: a cast from its announcement to the hosts that have it."""

import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.schemas import codec
from headwater.schemas.cast_manifest import ManifestState
from headwater.schemas.cast_records import (
    CastEvent,
    CastEventKind,
    CastManifest,
    CastProgress,
    CastState,
    ManifestKind,
)
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_PROGRESS

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, (CAST_MANIFESTS, CAST_PROGRESS, CAST_EVENTS))
    return on_stack


@pytest.fixture
def epoch(kafka, catalog_dsn):
    """A sealed cast of two chunks, another cast beside it, and thirty hosts that have it."""
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        with catalog.transaction() as transaction:
            cast, other = (
                casts.announce(
                    transaction, name=name, origin="h", file=b"/m", file_name="m.bin", size=2 << 20,
                    chunk_bytes=1 << 20, targets=(), expires_at=datetime.now(UTC) + timedelta(hours=1),
                )
                for name in ("model", "other")
            )  # fmt: skip
            casts.seal(transaction, cast.epoch, b"r" * 32)
            casts.end(transaction, other.epoch, ManifestState.aborted, "never mind")
    say = partial(produce, kafka, kafka.producer())
    say(CAST_MANIFESTS, manifest(cast.epoch, ManifestKind.announced))
    for chunk in range(2):
        say(CAST_MANIFESTS, manifest(cast.epoch, ManifestKind.hashes, first_chunk=chunk, hashes=b"h" * 32))
    say(CAST_MANIFESTS, manifest(other.epoch, ManifestKind.aborted))
    say(CAST_MANIFESTS, manifest(cast.epoch, ManifestKind.sealed, root=b"r" * 32))
    for number in range(30):
        say(CAST_PROGRESS, progress(cast.epoch, f"host-{number}", CastState.installed))
    say(CAST_PROGRESS, progress(cast.epoch, "host-30", CastState.failed, "no space"))
    say(CAST_EVENTS, event(cast.epoch))
    return cast.epoch


def produce(kafka, producer, topic, record) -> None:
    producer.produce(kafka.physical(topic), key=record.key(), value=codec.encode(record))
    assert producer.flush(30) == 0


def manifest(epoch: int, kind: ManifestKind, **fields) -> CastManifest:
    return CastManifest(name="model", epoch=epoch, kind=kind, reason=f"it is {kind}", **fields)


def progress(epoch: int, host: str, state: CastState, reason: str = "") -> CastProgress:
    return CastProgress(
        epoch=epoch, name="model", host=host, incarnation=1, rack="r1", state=state, chunks=2, received_bytes=2 << 20,
        outside_bytes=0, seconds=1.5, reason=reason, at_us=time.time_ns() // 1000,
    )  # fmt: skip


def event(epoch: int) -> CastEvent:
    return CastEvent(
        epoch=epoch, host="host-1", incarnation=1, kind=CastEventKind.blamed, about_host="host-9",
        reason="host-9 sent other bytes in chunk 1", at_us=time.time_ns() // 1000,
    )  # fmt: skip


def test_a_cast_is_told_in_order_and_nothing_of_another(command, epoch):
    told = command("trace", f"cast:{epoch}", "--json").json

    assert told["name"] == "model"
    log = [one["what"] for one in told["events"] if one["where"] != "catalog"]
    assert log[:3] == ["announced", "hashes", "sealed"]
    assert log.count("installed") == 30
    assert [one["detail"] for one in told["events"] if one["what"] in ("hashes", "failed", "blamed")] == [
        "of chunks 0 to 1, in 2 records",
        "host-30 in rack r1, 2 chunks after 1.5 s: no space",
        "host-1: host-9 sent other bytes in chunk 1",
    ]


def test_many_hosts_are_one_line_for_people(command, epoch):
    shown = command("trace", "cast:model").out

    assert shown.startswith(f"cast:{epoch}  model  m.bin, 2.0 MiB")
    assert "30 hosts within" in shown
    assert shown.count("installed") == 1
    assert "no space" in shown
    assert "→ whole" in shown
    assert "aborted" not in shown


def test_a_cast_that_ended_says_why(command, epoch):  # noqa: ARG001
    assert "→ over: never mind" in command("trace", "cast:other").out


@pytest.mark.parametrize(("named", "code"), [("cast:nobody", 66), ("cast:99999", 66), ("cast:", 78)])
def test_what_is_no_cast(command, epoch, named, code):  # noqa: ARG001
    assert command("trace", named).code == code
