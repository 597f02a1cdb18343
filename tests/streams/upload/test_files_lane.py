"""The lane of changes against a real catalog and a real S3 server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import BadRecord, Fenced, Refused, Unavailable
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.records import ChangeKind, FileType, ObjectStored, RequestReason, SyncRequest
from headwater.streams.runtime.processor import Input
from headwater.streams.upload.changes import checked
from headwater.streams.upload.files_lane import FilesLane

World = Any


@pytest.fixture
def lane(world: World) -> Iterator[FilesLane]:
    lane = FilesLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


def kinds(outputs: Any) -> list[str]:
    return sorted(type(one.record).__name__ for one in outputs)


def test_a_new_file_is_recorded_stored_and_announced(world: World, lane: FilesLane) -> None:
    content = world.write(b"a/one.jpg", b"light")
    outputs = lane.process(world.batch(world.change(b"a/one.jpg", mode=0o640, mtime_ns=7)))

    assert [one.record for one in outputs] == [ObjectStored(hash=content, generation=1, size=5, source="nas1")]
    assert [one.topic.name for one in outputs] == ["sync.objects"]
    assert world.store.get(object_key(content, 1)) == b"light"
    assert world.query("SELECT path, epoch, seq, kind, hash, size, mtime_ns, mode FROM file_versions") == [
        (b"a/one.jpg", 1, 1, "created", content, 5, 7, 0o640)
    ]
    assert world.query("SELECT path, epoch, seq, committed_seq FROM paths") == [(b"a/one.jpg", 1, 1, 0)]
    assert world.query("SELECT uncommitted FROM datasets") == [(1,)]
    assert world.counters() == {
        "files": 1, "bytes": 5, "objects_claimed": 1, "bytes_claimed": 5, "objects_stored": 1, "bytes_stored": 5
    }  # fmt: skip


def test_a_replay_writes_nothing_sends_nothing_and_emits_the_same(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"))
    first = lane.process(batch)
    before = world.counters()
    requests = len(world.passage.requests)

    assert lane.process(batch) == first
    assert world.counters() == before
    assert len(world.passage.requests) == requests
    assert world.query("SELECT uncommitted FROM datasets") == [(1,)]


def test_a_verified_content_is_not_announced_again(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    lane.process(world.batch(world.change(b"one")))
    world.query("UPDATE objects SET state = 'verified'")

    assert lane.process(world.batch(world.change(b"one", ChangeKind.metadata, hash=content_hash(b"light")))) == []


def test_duplicates_renames_and_reverts_send_zero_bytes(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    world.write(b"two", b"light")
    lane.process(world.batch(world.change(b"one"), world.change(b"two")))
    assert len(world.passage.sent("PUT .*objects/")) == 1

    world.write(b"one", b"dark")
    lane.process(world.batch(world.change(b"one", ChangeKind.modified)))
    assert len(world.passage.sent("PUT .*objects/")) == 2

    world.write(b"one", b"light")
    lane.process(world.batch(world.change(b"one", ChangeKind.modified)))
    os.rename(world.root / "one", world.root / "three")
    lane.process(world.batch(world.change(b"three", ChangeKind.renamed, from_path=b"one")))
    assert len(world.passage.sent("PUT .*objects/")) == 2
    assert world.query(
        "SELECT path, kind, seq, from_path, renamed_to FROM file_versions WHERE seq = 5 ORDER BY path"
    ) == [(b"one", "deleted", 5, None, b"three"), (b"three", "renamed", 5, b"one", None)]
    assert world.counters()["files"] == 2
    assert world.counters()["bytes"] == 10


def test_an_older_state_never_wins_over_a_newer_one(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"old")
    old = world.change(b"one")
    world.write(b"one", b"newer")
    new = world.change(b"one", ChangeKind.modified)
    lane.process(world.batch(new))
    lane.process(world.batch(old))

    assert world.query("SELECT seq FROM paths") == [(2,)]
    assert world.counters()["bytes"] == 5
    assert world.state(content_hash(b"old")) is None, "what no path needs any more is not sent"


def test_a_rename_met_before_the_older_state_of_its_old_path_keeps_it_gone(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    created = world.change(b"one")
    os.rename(world.root / "one", world.root / "two")
    renamed = world.change(b"two", ChangeKind.renamed, from_path=b"one")
    lane.process(world.batch(renamed, partition=1))
    lane.process(world.batch(created, partition=0))

    assert world.query("SELECT path, seq, content_bytes FROM paths ORDER BY path") == [
        (b"one", 2, None),
        (b"two", 2, 5),
    ]
    assert world.counters()["files"] == 1


def test_deletes_symlinks_and_large_files_are_recorded_only(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    lane.process(world.batch(world.change(b"one")))
    outputs = lane.process(
        world.batch(
            world.change(b"one", ChangeKind.deleted),
            world.change(b"link", file_type=FileType.symlink, link_target=b"one", hash=None),
            world.change(b"large", file_type=FileType.regular, hash=b"L" * 32, size=1 << 30, parts=99),
        )
    )
    assert outputs == []
    assert world.query("SELECT path, kind, hash, link_target FROM file_versions WHERE seq > 1 ORDER BY path") == [
        (b"large", "created", b"L" * 32, None),
        (b"link", "created", None, b"one"),
        (b"one", "deleted", None, None),
    ]
    assert world.counters()["files"] == 2
    assert world.counters()["bytes"] == 1 << 30


def test_names_of_odd_bytes_and_an_empty_file(world: World, lane: FilesLane) -> None:
    names = [b"bad\xff.jpg", b"line\nbreak", b"a%2Fb", b"trailing ", "ü/日本.png".encode(), b"back\\slash", b"\x08"]
    for number, name in enumerate(names):
        world.write(name, str(number).encode())
    world.write(b"empty", b"")
    outputs = lane.process(world.batch(*(world.change(name) for name in [*names, b"empty"])))

    assert kinds(outputs) == ["ObjectStored"] * 8
    assert {row[0] for row in world.query("SELECT path FROM paths")} == {*names, b"empty"}
    assert world.store.get(object_key(content_hash(b""), 1)) == b""


def test_a_file_replaced_after_its_event_is_torn_and_asked_for_again(world: World, lane: FilesLane) -> None:
    old = world.write(b"one", b"light")
    change = world.change(b"one")
    world.write(b"one", b"other")
    outputs = lane.process(world.batch(change))

    request = outputs[0].record
    assert isinstance(request, SyncRequest)
    assert (request.path, request.epoch, request.seq, request.reason) == (b"one", 1, 1, RequestReason.torn)
    assert world.state(old) == "gone"
    assert world.passage.sent("PUT .*objects/") == []
    assert world.counters() == {"files": 1, "bytes": 5}

    world.write(b"one", b"light")
    assert kinds(lane.process(world.batch(world.change(b"one", ChangeKind.modified)))) == ["ObjectStored"]
    assert world.objects() == [(1, "gone"), (2, "stored")]


@pytest.mark.parametrize("what", ["vanished", "symlink", "folder", "fifo", "symlinked parent"])
def test_what_is_no_regular_file_below_the_root_is_torn(world: World, lane: FilesLane, what: str) -> None:
    world.write(b"folder/one", b"light")
    change = world.change(b"folder/one")
    place = world.root / "folder" / "one"
    os.unlink(place)
    elsewhere = world.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "one").write_bytes(b"light")
    match what:
        case "symlink":
            place.symlink_to(elsewhere / "one")
        case "folder":
            place.mkdir()
        case "fifo":
            os.mkfifo(place)
        case "symlinked parent":
            place.parent.rmdir()
            place.parent.symlink_to(elsewhere)
    assert kinds(lane.process(world.batch(change))) == ["SyncRequest"]


def test_a_second_path_of_the_batch_serves_where_the_first_is_torn(world: World, lane: FilesLane) -> None:
    for name in (b"one", b"two"):
        world.write(name, b"light")
    changes = [world.change(b"one"), world.change(b"two")]
    os.unlink(world.root / "two")
    assert kinds(lane.process(world.batch(*changes))) == ["ObjectStored"]


def test_a_file_that_grew_by_an_append_is_stored_as_it_was(world: World, lane: FilesLane) -> None:
    content = world.write(b"log", b"first line\n")
    change = world.change(b"log")
    with open(world.root / "log", "ab") as file:
        file.write(b"second line\n")
    lane.process(world.batch(change))
    assert world.store.get(object_key(content, 1)) == b"first line\n"


def test_two_partitions_that_meet_one_content_send_it_once(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    world.write(b"two", b"light")
    first, second = world.change(b"one"), world.change(b"two")
    other = FilesLane(world.config, world.catalog, world.store)
    batch = world.batch(first, partition=0)
    lane.own(batch)
    lane.record([checked(one) for one in batch.inputs])

    assert other.process(world.batch(second, partition=1)) == [], "the claim of partition 0 is open: only recorded"
    assert world.passage.sent("PUT .*objects/") == []
    assert kinds(lane.process(batch)) == ["ObjectStored"]
    assert len(world.passage.sent("PUT .*objects/")) == 1
    other.close()


def test_a_file_that_is_renamed_while_it_waits_is_sent_from_its_new_place(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"), partition=0)
    lane.own(batch)
    lane.record([checked(one) for one in batch.inputs])
    os.rename(world.root / "one", world.root / "two")
    other = FilesLane(world.config, world.catalog, world.store)
    other.process(world.batch(world.change(b"two", ChangeKind.renamed, from_path=b"one"), partition=1))

    assert kinds(lane.process(batch)) == ["ObjectStored"]
    assert world.objects() == [(1, "stored")]
    other.close()


def test_a_torn_claim_asks_for_every_path_that_waits(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    world.write(b"two", b"light")
    first, second = world.change(b"one"), world.change(b"two")
    batch = world.batch(first, partition=0)
    lane.own(batch)
    lane.record([checked(one) for one in batch.inputs])
    other = FilesLane(world.config, world.catalog, world.store)
    other.process(world.batch(second, partition=1))
    os.unlink(world.root / "one")
    os.unlink(world.root / "two")

    asked = {one.record.path for one in lane.process(batch)}  # type: ignore[attr-defined]
    assert asked == {b"one", b"two"}
    other.close()


def test_a_late_write_of_an_owner_that_lost_its_partition_is_fenced(world: World, lane: FilesLane) -> None:
    content = world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"))
    lane.own(batch)
    work = lane.record([checked(one) for one in batch.inputs])
    successor = FilesLane(world.config, world.catalog, world.store)
    assert kinds(successor.process(world.batch(*(one.record for one in batch.inputs)))) == ["ObjectStored"]
    sent, _ = lane.send(batch, work)

    with pytest.raises(Fenced, match="newer owner"):
        lane.settle(sent)
    with pytest.raises(Fenced):
        lane.process(batch)
    assert world.state(content) == "stored"
    assert world.counters()["objects_stored"] == 1
    successor.close()


def test_a_late_write_cannot_settle_what_a_newer_owner_is_sending(world: World, lane: FilesLane) -> None:
    content = world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"))
    lane.own(batch)
    work = lane.record([checked(one) for one in batch.inputs])
    sent, _ = lane.send(batch, work)
    successor = FilesLane(world.config, world.catalog, world.store)
    successor.own(batch)
    successor.record([checked(one) for one in batch.inputs])

    with pytest.raises(Fenced):
        lane.settle(sent)
    assert world.state(content) == "uploading"
    assert "objects_stored" not in world.counters()
    successor.close()


def test_a_new_assignment_takes_new_epochs(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    change = world.change(b"one")
    lane.process(world.batch(change, assignment=1))
    lane.process(world.batch(change, assignment=1))
    assert world.query("SELECT partition, epoch FROM partition_epochs") == [(0, 1)]
    lane.process(world.batch(change, assignment=2))
    assert world.query("SELECT partition, epoch FROM partition_epochs") == [(0, 2)]


def test_records_of_an_earlier_owner_of_the_source_are_dropped(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    stale = world.change(b"one")
    world.register(epoch=2)
    assert lane.process(world.batch(stale)) == []
    assert world.query("SELECT * FROM file_versions") == []
    assert world.passage.sent("PUT .*objects/") == []


def test_the_claim_of_an_earlier_owner_of_the_source_is_still_settled(world: World, lane: FilesLane) -> None:
    content = world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"))
    lane.own(batch)
    lane.record([checked(one) for one in batch.inputs])
    world.register(epoch=2)
    assert kinds(lane.process(batch)) == ["ObjectStored"]
    assert world.state(content) == "stored"


def test_exceptions_are_kept_under_their_clock_and_cleared(world: World, lane: FilesLane) -> None:
    busy = world.change(b"one", ChangeKind.excepted, reason="busy")
    cleared = world.change(b"one", ChangeKind.cleared)
    lane.process(world.batch(busy))
    assert world.query("SELECT seq, reason, active FROM exceptions") == [(1, "busy", True)]
    lane.process(world.batch(cleared))
    lane.process(world.batch(busy))
    assert world.query("SELECT seq, active FROM exceptions") == [(2, False)]
    assert world.query("SELECT * FROM paths") == []


def test_checkpoints_are_applied_per_partition_and_never_go_back(world: World, lane: FilesLane) -> None:
    late = world.change(b"", ChangeKind.checkpoint, seq=9)
    early = world.change(b"", ChangeKind.checkpoint, seq=4)
    lane.process(world.batch(late, partition=0))
    lane.process(world.batch(early, partition=1))
    lane.process(world.batch(early, partition=0))
    assert world.query("SELECT partition, epoch, seq FROM checkpoints ORDER BY partition") == [(0, 1, 9), (1, 1, 4)]


@pytest.mark.parametrize("path", [b"", b"/etc/passwd", b"a/../b", b"a//b", b"./a", b"a/", b"nul\x00"])
def test_a_path_that_leaves_the_root_is_a_bad_record(world: World, lane: FilesLane, path: bytes) -> None:
    record = world.change(path, hash=b"x" * 32, size=1, file_type=FileType.regular)
    with pytest.raises(BadRecord, match="not a path below a root"):
        lane.process(world.batch(record))
    assert world.query("SELECT * FROM file_versions") == []


def test_a_source_that_the_catalog_does_not_know_is_a_bad_record(world: World, lane: FilesLane) -> None:
    with pytest.raises(BadRecord, match="knows no source"):
        lane.process(world.batch(world.change(b"one", hash=b"x" * 32, source="who")))


def test_a_buried_record_is_a_named_exception_until_it_is_redriven(world: World, lane: FilesLane) -> None:
    world.write(b"one", b"light")
    batch = world.batch(world.change(b"one"))
    lane.own(batch)
    lane.record([checked(one) for one in batch.inputs])
    lane.bury(batch.inputs[0], Refused("the server said no."))
    assert world.query("SELECT path, seq, reason, active FROM exceptions") == [
        (b"one", 1, "dead-lettered: the server said no.", True)
    ]
    assert world.objects() == [(1, "gone")], "its claim is free for others"

    assert kinds(lane.process(batch)) == ["ObjectStored"]
    assert world.query("SELECT active FROM exceptions") == [(False,)]


def test_a_change_that_cannot_be_read_names_its_path_until_a_state_of_it_comes(world: World, lane: FilesLane) -> None:
    world.seq = 5
    lane.process(world.batch(world.change(b"", ChangeKind.checkpoint)))
    lost = world.change(b"one", hash=b"x" * 32, size=1, file_type=FileType.regular)
    garbage = Input("fs", Message(partition=0, offset=7, key=lost.key(), value=b"garbage"))

    for _ in range(2):
        assert lane.bury(garbage, BadRecord("the value starts with byte 0x67")) == ()

    assert world.query("SELECT path, epoch, seq, reason, active FROM exceptions") == [
        (b"one", 1, 7, "dead-lettered: the value starts with byte 0x67", True)
    ], "after the checkpoint that its partition had applied"
    world.write(b"one", b"light")
    lane.process(world.batch(world.change(b"one", seq=lost.seq)))
    assert world.query("SELECT active FROM exceptions") == [(False,)]


@pytest.mark.parametrize("key", [b"", b"no separator", b"\xff\x00path", b"who\x00one", b"nas1\x00"])
def test_a_change_that_cannot_be_read_and_whose_key_names_no_path_is_buried_all_the_same(
    world: World, lane: FilesLane, key: bytes
) -> None:
    assert lane.bury(Input("fs", Message(partition=0, offset=7, key=key, value=b"?")), BadRecord("garbage")) == ()
    assert world.query("SELECT * FROM exceptions") == []


def test_a_wrong_key_is_a_clear_refusal_that_keeps_the_claim(world: World) -> None:
    content = world.write(b"one", b"light")
    config = world.store.config
    wrong = S3Config(bucket=config.bucket, endpoint=config.endpoint, access_key_id="nobody", secret_access_key="x" * 9)
    lane = FilesLane(world.config, world.catalog, ObjectStore(wrong))
    batch = world.batch(world.change(b"one"))
    with pytest.raises(Refused, match=r"refused the credentials.*HEADWATER_S3"):
        lane.process(batch)
    assert world.state(content) == "uploading"
    lane.close()

    healed = FilesLane(world.config, world.catalog, world.store)
    assert kinds(healed.process(world.batch(*(one.record for one in batch.inputs)))) == ["ObjectStored"]
    healed.close()


@pytest.mark.parametrize(
    ("die", "when", "puts"),
    [
        ("FilesLane.own", "after", 0),
        ("FilesLane.record", "after", 0),
        ("ObjectStore.put_whole", "after", 1),
        ("FilesLane.send", "after", 2),
        ("FilesLane.settle", "after", 2),
        ("FilesLane.outputs", "after", 2),
    ],
)
@pytest.mark.fault
def test_a_death_after_any_step_loses_nothing_and_sends_nothing_finished_again(
    world: World, lane: FilesLane, die: str, when: str, puts: int
) -> None:
    for name in (b"one", b"two"):
        world.write(name, b"content of " + name)
    changes = [world.change(b"one"), world.change(b"two")]
    world.config = type(world.config)(site=world.config.site, transfers=1)
    assert world.run_child("FilesLane(config, catalog, store)", changes, die=die, when=when) == 99
    assert len(world.passage.sent("PUT .*objects/")) == puts

    outputs = lane.process(world.batch(*changes))
    assert kinds(outputs) == ["ObjectStored", "ObjectStored"]
    assert len(world.passage.sent("PUT .*objects/")) == 2
    assert world.objects() == [(1, "stored"), (1, "stored")]
    assert world.counters()["objects_stored"] == 2
    assert world.query("SELECT uncommitted FROM datasets") == [(2,)]


def test_the_lane_works_on_a_root_that_is_mounted_elsewhere(world: World) -> None:
    world.write(b"one", b"light")
    change = world.change(b"one")
    world.query("UPDATE sources SET root = %s", b"/nowhere")
    config = type(world.config)(site=world.config.site, roots={"nas1": world.root})
    lane = FilesLane(config, Catalog(world.catalog.config), world.store)
    assert kinds(lane.process(world.batch(change))) == ["ObjectStored"]
    lane.close()


def in_pieces_of(world: World, records: int) -> FilesLane:
    return FilesLane(replace(world.config, files_piece_records=records), world.catalog, world.store)


def test_a_piece_is_recorded_while_the_one_before_is_sent(world: World) -> None:
    lane = in_pieces_of(world, 1)
    second_recorded = threading.Event()
    record, put = lane.record, world.store.put_whole

    def recording(changes: Any, sending: Any) -> Any:
        work = record(changes, sending)
        if any(claim.size == len(b"dark") for claim in work.claims):
            second_recorded.set()
        return work

    def putting(key: str, data: bytes) -> Any:
        assert data != b"light" or second_recorded.wait(20), "the first is in flight until the second is recorded"
        return put(key, data)

    lane.record, world.store.put_whole = recording, putting  # type: ignore[method-assign]
    world.write(b"one", b"light")
    world.write(b"two", b"dark")
    outputs = lane.process(world.batch(world.change(b"one"), world.change(b"two")))
    lane.close()
    assert kinds(outputs) == ["ObjectStored", "ObjectStored"]


def test_a_content_that_an_earlier_piece_sends_is_not_sent_by_a_later_one(world: World) -> None:
    lane = in_pieces_of(world, 1)
    for name in (b"one", b"two", b"three"):
        world.write(name, b"light")
    outputs = lane.process(world.batch(*(world.change(name) for name in (b"one", b"two", b"three"))))
    lane.close()
    assert kinds(outputs) == ["ObjectStored"]
    assert world.passage.sent("HEAD") == []
    assert len(world.passage.sent("PUT .*objects/")) == 1


@pytest.mark.parametrize("fails", ["record", "send"])
def test_nothing_is_under_way_any_more_when_a_piece_fails(world: World, fails: str) -> None:
    """Else the next try would send beside it."""
    lane = in_pieces_of(world, 1)
    names = [b"one", b"two", b"three", b"four"]
    for name in names:
        world.write(name, name)
    batch = world.batch(*(world.change(name) for name in names))
    record, put = lane.record, world.store.put_whole
    under_way: list[str] = []
    failed = threading.Event()

    def recording(changes: Any, sending: Any) -> Any:
        if fails == "record" and changes[0].record.path == b"three":
            failed.set()
            raise Unavailable("no catalog")
        return record(changes, sending)

    def putting(key: str, data: bytes) -> Any:
        if fails == "send" and data == b"two":
            raise Unavailable("no S3")
        under_way.append(key)
        if fails == "record" and data == b"two":
            assert failed.wait(20), "it is in flight until the third cannot be recorded"
        outcome = put(key, data)
        under_way.remove(key)
        return outcome

    lane.record, world.store.put_whole = recording, putting  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        lane.process(batch)
    assert under_way == []

    lane.record, world.store.put_whole = record, put  # type: ignore[method-assign]
    assert kinds(lane.process(batch)) == ["ObjectStored"] * 4
    lane.close()
    assert len(world.passage.sent("PUT .*objects/")) == 4, "what was sent is not sent again"
