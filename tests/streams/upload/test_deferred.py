"""A source whose root is away on the uploader's host: its content waits, everything else goes on, nothing is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog import deferred as waiting
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.identity import content_hash
from headwater.schemas.codec import encode
from headwater.schemas.records import ChangeKind, FileChange, ObjectStored, SyncRequest
from headwater.schemas.topics import catalogue, fs_changes, fs_parts
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.upload import deferred
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.parts_lane import PartsLane
from headwater.streams.verify.config import VerifyConfig
from headwater.streams.verify.verifier import Verifier

World = Any
Eventually = Callable[..., Any]
PART = 5 * 1024 * 1024
AWAY = "nas2"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "RETRY_SECONDS", 0.0)


@pytest.fixture
def away(world: World, tmp_path: Path) -> Path:
    """The root of a second source: not there yet."""
    root = tmp_path / "away"
    world.register(AWAY, root=root)
    return root


@pytest.fixture
def lane(world: World) -> Iterator[FilesLane]:
    lane = FilesLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


@pytest.fixture
def parts_lane(world: World) -> Iterator[PartsLane]:
    lane = PartsLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


def record(world: World, path: bytes, data: bytes, source: str = AWAY, **fields: Any) -> FileChange:
    return world.change(path, source=source, hash=content_hash(data), size=len(data), **fields)


def mount(root: Path, **contents: bytes) -> None:
    root.mkdir()
    for name, data in contents.items():
        (root / name).write_bytes(data)


def stored(outputs: Any) -> list[bytes]:
    return [one.record.hash for one in outputs if isinstance(one.record, ObjectStored)]


def test_what_is_put_off_is_told_since_it_first_was_and_until_it_is_stored(
    world: World, lane: FilesLane, away: Path
) -> None:
    lane.process(world.batch(record(world, b"gone", b"dark"), record(world, b"too", b"darker")))
    world.query(
        "UPDATE objects SET deferred_at = deferred_at - interval '1 hour' WHERE hash = %s", content_hash(b"dark")
    )
    lane.process(world.batch())  # tries again

    with world.catalog.transaction() as transaction:
        told = waiting.put_off(transaction)
        of_lane = waiting.put_off(transaction, fs_changes(world.config.site).name)
        of_other = waiting.put_off(transaction, fs_parts(world.config.site).name)
    assert told.keys() == {AWAY}
    assert (told[AWAY].count, told[AWAY].or_more) == (2, False)
    assert 3600 <= told[AWAY].seconds < 3660
    assert "cannot be opened here: No such file or directory" in told[AWAY].reason
    assert of_lane.keys() == {AWAY}
    assert of_other == {}

    mount(away, gone=b"dark", too=b"darker")
    lane.process(world.batch())
    with world.catalog.transaction() as transaction:
        assert waiting.put_off(transaction) == {}


@pytest.mark.usefixtures("away")
def test_a_source_that_is_there_does_not_wait_for_one_that_is_away(world: World, lane: FilesLane) -> None:
    world.write(b"here", b"light")
    outputs = lane.process(world.batch(record(world, b"gone", b"dark"), world.change(b"here")))

    assert stored(outputs) == [content_hash(b"light")]
    assert not [one for one in outputs if isinstance(one.record, SyncRequest)], "nothing is asked for: it is not torn"
    assert world.state(content_hash(b"dark")) == "uploading"
    [(detail,)] = world.query("SELECT detail FROM objects WHERE source = %s", AWAY)
    assert "cannot be opened here: No such file or directory" in detail


def test_what_was_put_off_is_sent_and_announced_once_the_root_is_back_without_its_record(
    world: World, lane: FilesLane, away: Path
) -> None:
    lane.process(world.batch(record(world, b"gone", b"dark"), record(world, b"torn", b"lost")))
    assert lane.process(world.batch()) == []
    mount(away, gone=b"dark", torn=b"other")

    outputs = lane.process(world.batch())
    assert stored(outputs) == [content_hash(b"dark")]
    assert [one.record.path for one in outputs if isinstance(one.record, SyncRequest)] == [b"torn"]
    assert lane.process(world.batch()) == []
    assert len(world.passage.sent("PUT .*objects/")) == 1


def test_what_was_stored_and_perhaps_not_announced_is_announced_again_under_a_new_assignment(
    world: World, lane: FilesLane, away: Path
) -> None:
    lane.process(world.batch(record(world, b"gone", b"dark")))
    mount(away, gone=b"dark")
    lane.process(world.batch())  # the member dies before it commits these outputs

    assert stored(lane.process(world.batch(assignment=2))) == [content_hash(b"dark")]
    world.query("UPDATE objects SET state = 'verified', detail = ''")
    assert lane.process(world.batch(assignment=3)) == []


def test_the_next_owner_of_the_partition_finds_what_was_put_off(world: World, lane: FilesLane, away: Path) -> None:
    lane.process(world.batch(record(world, b"gone", b"dark")))
    mount(away, gone=b"dark")
    other = FilesLane(world.config, world.catalog, world.store)
    assert stored(other.process(world.batch())) == [content_hash(b"dark")]
    other.close()


@pytest.mark.usefixtures("away")
def test_a_copy_in_a_source_that_is_there_is_sent_for_the_one_that_is_away(world: World, lane: FilesLane) -> None:
    lane.process(world.batch(record(world, b"gone", b"dark")))
    world.write(b"copy", b"dark")
    outputs = lane.process(world.batch(world.change(b"copy"), partition=3))
    assert stored(outputs) == [content_hash(b"dark")]


@pytest.mark.usefixtures("away")
def test_deletes_and_checkpoints_of_the_source_that_is_away_are_applied(world: World, lane: FilesLane) -> None:
    gone = record(world, b"gone", b"dark")
    deleted = world.change(b"gone", ChangeKind.deleted, source=AWAY)
    lane.process(world.batch(gone, deleted, world.change(b"", ChangeKind.checkpoint, source=AWAY)))
    assert world.query("SELECT seq, content_bytes FROM paths WHERE source = %s", AWAY) == [(2, None)]
    assert world.query("SELECT seq FROM checkpoints WHERE source = %s", AWAY) == [(3,)]


def test_the_parts_of_a_source_that_is_away_wait_and_are_sent_when_it_is_back(
    world: World, parts_lane: PartsLane, away: Path
) -> None:
    film = random.Random(2).randbytes(2 * PART + 9)
    world.write(b"film", film)
    parts = [replace(one, source=AWAY) for one in world.parts(b"film", PART)]
    world.query(
        "INSERT INTO file_versions (source, path, epoch, seq, kind, file_type, hash, size, mtime_ns, mode, uid, gid, "
        "guarantee) VALUES (%s, 'film', 1, 1, 'created', 'regular', %s, %s, 0, 0, 0, 0, 'strong')",
        AWAY, content_hash(film), len(film),
    )  # fmt: skip
    world.query("INSERT INTO paths (source, path, epoch, seq, content_bytes) VALUES (%s, 'film', 1, 1, 1)", AWAY)
    assert parts_lane.process(world.batch(*parts[:2])) == []
    assert parts_lane.process(world.batch(*parts[2:])) == []
    assert world.state(content_hash(film)) == "uploading"

    mount(away, film=film)
    assert stored(parts_lane.process(world.batch())) == [content_hash(film)]
    assert len(world.passage.sent("PUT .*partNumber")) == 3


@pytest.fixture
def kafka(stack: Any, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, catalogue(("here",)))
    return kafka


def test_over_the_log_a_missing_root_holds_up_nobody_and_is_taken_up_when_nothing_else_comes(
    world: World, kafka: Kafka, away: Path, tmp_path: Path, eventually: Eventually
) -> None:
    world.write(b"here", b"light")
    producer = kafka.producer()
    for change in (record(world, b"gone", b"dark"), world.change(b"here")):
        producer.produce(kafka.physical(fs_changes("here")), encode(change), change.key(), 0)
    assert producer.flush(30) == 0
    lanes = FilesLane(UploadConfig(site="here"), world.catalog, world.store)
    verifier = Verifier(VerifyConfig(), world.catalog, world.store)
    members = [Member(kafka, one, MemberConfig(slot_folder=tmp_path / "slots")) for one in (lanes, verifier)]
    threads = [threading.Thread(target=member.run, daemon=True) for member in members]
    for thread in threads:
        thread.start()
    eventually(lambda: world.state(content_hash(b"light")) == "verified", within_seconds=60)
    assert world.state(content_hash(b"dark")) == "uploading"
    mount(away, gone=b"dark")
    eventually(lambda: world.state(content_hash(b"dark")) == "verified", within_seconds=60)
    for member in members:
        member.stop()
    for thread in threads:
        thread.join(60)
    lanes.close()
    verifier.close()
