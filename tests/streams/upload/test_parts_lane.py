"""The lane of parts against a real catalog and a real S3 server."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import BadRecord, Fenced, Refused, Transient, Unavailable
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.records import ChangeKind, FilePart, ObjectStored, SyncRequest
from headwater.streams.upload.emissions import checked
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.multipart_uploads import MultipartUploads
from headwater.streams.upload.parts_lane import PartsLane

World = Any
PART = 5 * 1024 * 1024
"""The smallest part that S3 takes."""


def content(seed: int, size: int = 2 * PART + 100) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture
def lane(world: World) -> Iterator[PartsLane]:
    lane = PartsLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


def part_puts(world: World) -> int:
    return len(world.passage.sent("PUT .*partNumber="))


def test_a_large_file_is_sent_in_parts_over_several_batches(world: World, lane: PartsLane) -> None:
    data = content(1)
    world.write(b"film.mp4", data)
    parts = world.parts(b"film.mp4", PART)
    assert lane.process(world.batch(*parts[:2])) == []
    assert world.state(content_hash(data)) == "uploading"
    outputs = lane.process(world.batch(*parts[2:]))

    assert [(one.topic.name, one.record) for one in outputs] == [
        (
            "sync.objects.large",
            ObjectStored(hash=content_hash(data), generation=1, size=len(data), source="nas1", parts=3),
        )
    ]
    assert world.store.get(object_key(content_hash(data), 1)) == data
    assert part_puts(world) == 3
    assert world.counters() == {
        "objects_claimed": 1, "bytes_claimed": len(data), "objects_stored": 1, "bytes_stored": len(data)
    }  # fmt: skip


def test_more_than_64_mib_arrive_whole(world: World, lane: PartsLane) -> None:
    data = content(2, 65 * 1024 * 1024 + 3)
    world.write(b"film.mp4", data)
    assert len(lane.process(world.batch(*world.parts(b"film.mp4", 8 * 1024 * 1024)))) == 1
    assert content_hash(b"".join(world.store.chunks(object_key(content_hash(data), 1)))) == content_hash(data)


def test_a_replay_sends_nothing_and_emits_the_same(world: World, lane: PartsLane) -> None:
    world.write(b"film.mp4", content(3))
    batch = world.batch(*world.parts(b"film.mp4", PART))
    first = lane.process(batch)
    requests = len(world.passage.requests)
    assert lane.process(batch) == first
    assert len(world.passage.requests) == requests
    world.query("UPDATE objects SET state = 'verified'")
    assert lane.process(batch) == []


def test_a_copy_of_a_large_file_sends_zero_bytes(world: World, lane: PartsLane) -> None:
    for name in (b"film.mp4", b"copy.mp4"):
        world.write(name, content(4))
    lane.process(world.batch(*world.parts(b"film.mp4", PART)))
    world.query("UPDATE objects SET state = 'verified'")
    assert lane.process(world.batch(*world.parts(b"copy.mp4", PART))) == []
    assert part_puts(world) == 3


@pytest.mark.parametrize("how", ["tail overwritten", "replaced", "vanished"])
def test_a_file_that_changes_between_parts_is_torn_and_aborted(world: World, lane: PartsLane, how: str) -> None:
    data = content(5)
    world.write(b"film.mp4", data)
    change = world.change(b"film.mp4", parts=3)
    parts = world.parts(b"film.mp4", PART)
    files = FilesLane(world.config, world.catalog, world.store)
    files.process(world.batch(change))
    lane.process(world.batch(parts[0]))
    match how:
        case "tail overwritten":
            with open(world.root / "film.mp4", "r+b") as file:
                file.seek(-10, os.SEEK_END)
                file.write(b"new ending")
        case "replaced":
            world.write(b"film.mp4", content(6))
        case "vanished":
            os.unlink(world.root / "film.mp4")
    outputs = lane.process(world.batch(*parts[1:]))

    assert [type(one.record) for one in outputs] == [SyncRequest]
    assert outputs[0].record.path == b"film.mp4"  # type: ignore[attr-defined]
    assert world.state(content_hash(data)) == "gone"
    assert world.store.head(object_key(content_hash(data), 1)) is None
    assert world.store.find_multiparts(object_key(content_hash(data), 1)) == []
    assert world.counters() == {"files": 1, "bytes": len(data)}

    world.write(b"film.mp4", data)
    assert [type(one.record) for one in lane.process(world.batch(*world.parts(b"film.mp4", PART)))] == [ObjectStored]
    assert world.objects() == [(1, "gone"), (2, "stored")]
    files.close()


def test_the_rest_of_a_torn_emission_is_dropped_and_does_not_mix_with_the_next(world: World, lane: PartsLane) -> None:
    data = content(7, 3 * PART)
    world.write(b"film.mp4", data)
    first = world.parts(b"film.mp4", PART)
    os.rename(world.root / "film.mp4", world.root / "away")
    lane.process(world.batch(*first[:2]))
    assert world.objects() == [(1, "gone")]
    os.rename(world.root / "away", world.root / "film.mp4")
    assert [type(one.record) for one in lane.process(world.batch(first[2]))] == [SyncRequest]

    other_cuts = world.parts(b"film.mp4", PART + 1000)
    outputs = lane.process(world.batch(first[2], *other_cuts))
    assert [type(one.record) for one in outputs] == [ObjectStored]
    assert world.store.get(object_key(content_hash(data), 2)) == data


def test_a_large_file_that_is_renamed_while_it_is_sent_goes_on_from_its_new_place(
    world: World, lane: PartsLane
) -> None:
    data = content(19)
    world.write(b"film.mp4", data)
    files = FilesLane(world.config, world.catalog, world.store)
    files.process(world.batch(world.change(b"film.mp4", parts=3)))
    parts = world.parts(b"film.mp4", PART)
    lane.process(world.batch(parts[0]))
    os.rename(world.root / "film.mp4", world.root / "renamed.mp4")
    files.process(world.batch(world.change(b"renamed.mp4", ChangeKind.renamed, from_path=b"film.mp4", parts=3)))

    assert [type(one.record) for one in lane.process(world.batch(*parts[1:]))] == [ObjectStored]
    assert part_puts(world) == 3
    assert world.objects() == [(1, "stored")]
    files.close()


@pytest.mark.parametrize("part_bytes", [PART + 1000, PART * 2])
def test_an_emission_that_stopped_gives_way_to_one_that_was_cut_otherwise(
    world: World, lane: PartsLane, part_bytes: int
) -> None:
    data = content(17, 3 * PART)
    world.write(b"film.mp4", data)
    lane.process(world.batch(*world.parts(b"film.mp4", PART)[:2]))
    outputs = lane.process(world.batch(*world.parts(b"film.mp4", part_bytes)))

    assert [type(one.record) for one in outputs] == [ObjectStored]
    assert world.objects() == [(1, "gone"), (2, "stored")]
    assert world.store.find_multiparts(object_key(content_hash(data), 1)) == []
    assert world.store.get(object_key(content_hash(data), 2)) == data
    assert world.counters()["objects_claimed"] == 1


def test_an_emission_that_comes_again_in_the_same_cuts_sends_only_what_is_missing(
    world: World, lane: PartsLane
) -> None:
    world.write(b"film.mp4", content(18))
    lane.process(world.batch(*world.parts(b"film.mp4", PART)[:2]))
    assert [type(one.record) for one in lane.process(world.batch(*world.parts(b"film.mp4", PART)))] == [ObjectStored]
    assert part_puts(world) == 3


def test_a_part_that_does_not_fit_is_a_bad_record(world: World, lane: PartsLane) -> None:
    world.write(b"film.mp4", content(8))
    good = world.parts(b"film.mp4", PART)[0]
    fields = {name: getattr(good, name) for name in good.__slots__}
    for wrong in ({"index": 3}, {"length": 0}, {"offset": good.size - 1}, {"offset": -1}):
        with pytest.raises(BadRecord, match="does not fit"):
            lane.process(world.batch(FilePart(**{**fields, **wrong})))


def test_a_late_write_of_an_owner_that_lost_its_partition_is_fenced(world: World, lane: PartsLane) -> None:
    data = content(9)
    world.write(b"film.mp4", data)
    batch = world.batch(*world.parts(b"film.mp4", PART))
    lane.own(batch)
    inputs = [checked(one) for one in batch.inputs]
    work = lane.claim(inputs)
    claims = MultipartUploads(world.catalog, world.store).open(work.claims)
    sent, _ = lane.send(batch, claims, work)
    successor = PartsLane(world.config, world.catalog, world.store)
    assert len(successor.process(batch)) == 1

    for late in (lambda: lane.mark(sent), lambda: lane.settle(claims), lambda: lane.process(batch)):
        with pytest.raises(Fenced):
            late()
    assert part_puts(world) == 3, "the successor found with ListParts what was sent"
    assert world.store.get(object_key(content_hash(data), 1)) == data
    successor.close()


def test_an_upload_that_was_aborted_behind_our_back_is_begun_again(world: World, lane: PartsLane) -> None:
    data = content(10)
    world.write(b"film.mp4", data)
    parts = world.parts(b"film.mp4", PART)
    lane.process(world.batch(parts[0]))
    key = object_key(content_hash(data), 1)
    world.store.abort_multipart(key, world.store.find_multiparts(key)[0])

    with pytest.raises(Transient):
        lane.process(world.batch(*parts[1:]))
    assert [type(one.record) for one in lane.process(world.batch(*parts[1:]))] == [ObjectStored]
    assert world.store.get(key) == data


def test_a_complete_without_an_answer_is_looked_up(world: World, lane: PartsLane, monkeypatch: Any) -> None:
    data = content(11)
    world.write(b"film.mp4", data)
    original = ObjectStore.complete_multipart

    def unanswered(self: ObjectStore, *arguments: Any) -> None:
        original(self, *arguments)
        raise Unavailable("the connection broke.")

    monkeypatch.setattr(ObjectStore, "complete_multipart", unanswered)
    assert [type(one.record) for one in lane.process(world.batch(*world.parts(b"film.mp4", PART)))] == [ObjectStored]


def test_an_outage_in_the_middle_sends_no_finished_part_again(world: World, monkeypatch: Any) -> None:
    world.write(b"film.mp4", content(12))
    batch = world.batch(*world.parts(b"film.mp4", PART))
    lane = PartsLane(type(world.config)(site=world.config.site, part_transfers=1), world.catalog, world.store)
    original = ObjectStore.upload_part

    def failing(self: ObjectStore, key: str, upload_id: str, number: int, data: bytes) -> str:
        if number == 2:
            raise Unavailable("S3 is down.")
        return original(self, key, upload_id, number, data)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "upload_part", failing)
        with pytest.raises(Unavailable):
            lane.process(batch)
    assert len(lane.process(batch)) == 1
    assert len(world.passage.sent("PUT .*partNumber=1$")) == 1
    lane.close()


def test_a_buried_part_names_its_path_and_frees_the_content(world: World, lane: PartsLane) -> None:
    data = content(13)
    world.write(b"film.mp4", data)
    batch = world.batch(*world.parts(b"film.mp4", PART)[:2])
    lane.process(batch)
    lane.bury(batch.inputs[1], Refused("the server said no."))
    assert world.query("SELECT path, reason, active FROM exceptions") == [
        (b"film.mp4", "dead-lettered: the server said no.", True)
    ]
    assert world.objects() == [(1, "gone")]
    assert world.store.find_multiparts(object_key(content_hash(data), 1)) == []


@pytest.mark.fault
@pytest.mark.parametrize(
    ("die", "nth"),
    [
        ("PartsLane.own", 1),
        ("PartsLane.claim", 1),
        ("ObjectStore.create_multipart", 1),
        ("MultipartUploads.open", 1),
        ("MultipartUploads.reconcile", 1),
        ("ObjectStore.upload_part", 2),
        ("PartsLane.send", 1),
        ("PartsLane.mark", 1),
        ("ObjectStore.complete_multipart", 1),
        ("MultipartUploads.complete", 1),
        ("PartsLane.settle", 1),
        ("PartsLane.outputs", 1),
    ],
)
def test_a_death_after_any_step_loses_nothing_and_sends_no_finished_part_again(
    world: World, lane: PartsLane, die: str, nth: int
) -> None:
    data = content(14)
    world.write(b"film.mp4", data)
    parts = world.parts(b"film.mp4", PART)
    world.config = type(world.config)(site=world.config.site, part_transfers=1)
    assert world.run_child("PartsLane(config, catalog, store)", parts, die=die, nth=nth) == 99

    outputs = lane.process(world.batch(*parts))
    assert [type(one.record) for one in outputs] == [ObjectStored]
    assert part_puts(world) == 3
    assert len(world.passage.sent("POST .*uploads")) == 1
    assert world.objects() == [(1, "stored")]
    assert world.counters()["objects_stored"] == 1
    assert world.store.get(object_key(content_hash(data), 1)) == data


@pytest.mark.fault
@pytest.mark.parametrize("die", ["PartsLane.mark", "ObjectStore.abort_multipart", "MultipartUploads.abandon"])
def test_a_death_around_an_abort_leaves_no_orphan_and_asks_the_source(world: World, lane: PartsLane, die: str) -> None:
    data = content(15)
    world.write(b"film.mp4", data)
    parts = world.parts(b"film.mp4", PART)
    lane.process(world.batch(parts[0]))
    world.write(b"film.mp4", content(16))
    assert world.run_child("PartsLane(config, catalog, store)", parts[1:], die=die) == 99

    successor = PartsLane(world.config, world.catalog, world.store)
    outputs = successor.process(world.batch(*parts[1:]))
    assert [type(one.record) for one in outputs] == [SyncRequest]
    assert world.objects() == [(1, "gone")]
    assert world.store.find_multiparts(object_key(content_hash(data), 1)) == []
    successor.close()
