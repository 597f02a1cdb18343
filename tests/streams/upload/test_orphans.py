"""Multipart uploads that nobody continues go from the real S3 server; those that somebody may continue stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.connectors.s3.store import Multipart, ObjectStore
from headwater.observe import metrics
from headwater.rules.errors import Fenced, Refused
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.records import ChangeKind, ObjectStored, SyncRequest
from headwater.schemas.topics import fs_parts
from headwater.streams.upload import orphans
from headwater.streams.upload.deferred import Resumed
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.orphans import Orphans
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.parts_lane import PartsLane

World = Any
PART = 5 * 1024 * 1024
DATA = random.Random(1).randbytes(PART + 100)
KEY = object_key(content_hash(DATA), 1)


@pytest.fixture
def lane(world: World) -> Iterator[PartsLane]:
    """A lane of a setting under which every upload is old. Its first batch sweeps."""
    world.config = replace(world.config, orphan_age_seconds=0.0)
    lane = PartsLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


@pytest.fixture
def begun(world: World) -> Any:
    """The records of a large file of which the first part is sent, and its path is recorded."""
    patient = replace(world.config, orphan_age_seconds=3600.0)
    world.write(b"film.mp4", DATA)
    files, first = FilesLane(patient, world.catalog, world.store), PartsLane(patient, world.catalog, world.store)
    files.process(world.batch(world.change(b"film.mp4", parts=2)))
    records = world.parts(b"film.mp4", PART)
    first.process(world.batch(records[0]))
    first.close()
    files.close()
    return records


def delete(world: World) -> None:
    """No path has the content any more."""
    files = FilesLane(world.config, world.catalog, world.store)
    files.process(world.batch(world.change(b"film.mp4", ChangeKind.deleted)))
    files.close()


def uploads(world: World) -> list[str]:
    return sorted(one.upload_id for one in world.store.list_multiparts(""))


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("state", ["gone", "condemned", "verified", None])
def test_the_upload_of_a_content_that_no_claim_is_open_on_goes(
    world: World, lane: PartsLane, state: str | None
) -> None:
    world.query("UPDATE objects SET state = %s" if state else "DELETE FROM objects WHERE %s::text IS NULL", state)
    aborted = metrics.UPLOAD_ORPHANS._value.get()
    assert lane.process(world.batch()) == []
    assert uploads(world) == []
    assert metrics.UPLOAD_ORPHANS._value.get() == aborted + 1


def test_an_open_claim_keeps_its_upload_and_not_another_of_its_key(world: World, lane: PartsLane, begun: Any) -> None:
    other = world.store.create_multipart(KEY)
    assert len(uploads(world)) == 2
    lane.process(world.batch())
    assert len(uploads(world)) == 1
    assert other not in uploads(world)
    assert [type(one.record) for one in lane.process(world.batch(begun[1]))] == [ObjectStored]
    assert len(world.passage.sent("PUT .*partNumber=")) == 2
    assert world.store.get(KEY) == DATA


@pytest.mark.usefixtures("begun")
def test_an_open_claim_without_an_upload_keeps_what_it_may_take_up(world: World, lane: PartsLane) -> None:
    world.query("UPDATE objects SET upload_id = NULL")
    lane.process(world.batch())
    assert len(uploads(world)) == 1


def test_a_claim_that_no_path_needs_any_more_is_given_up_with_its_upload(
    world: World, lane: PartsLane, begun: Any
) -> None:
    delete(world)
    assert world.counters()["objects_claimed"] == 1
    lane.process(world.batch())
    assert uploads(world) == []
    assert world.query("SELECT state, detail FROM objects") == [("gone", "no path has it any more")]
    assert "objects_claimed" not in world.counters()

    late = lane.process(world.batch(begun[1]))
    assert [(type(one.record), one.record.path) for one in late] == [(SyncRequest, b"film.mp4")]  # type: ignore[union-attr]
    assert [type(one.record) for one in lane.process(world.batch(*begun))] == [ObjectStored]


@pytest.mark.usefixtures("begun")
def test_what_was_put_off_is_not_given_up(world: World, lane: PartsLane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane._deferred, "resume", lambda _: Resumed())
    delete(world)
    world.query("UPDATE objects SET detail = 'its root is away'")
    lane.process(world.batch())
    assert world.objects() == [(1, "uploading")]
    assert len(uploads(world)) == 1


def test_a_young_upload_and_a_young_claim_stay(world: World, begun: Any) -> None:
    delete(world)
    patient = PartsLane(replace(world.config, orphan_age_seconds=60.0), world.catalog, world.store)
    world.store.create_multipart(object_key(content_hash(b"never claimed"), 1))
    patient.process(world.batch())
    assert len(uploads(world)) == 2
    assert world.objects() == [(1, "uploading")]
    assert begun
    patient.close()


@pytest.mark.usefixtures("begun")
def test_an_old_upload_of_a_claim_that_was_touched_of_late_stays(world: World) -> None:
    delete(world)
    in_two_hours = datetime.now(UTC) + timedelta(hours=2)
    sweep_at(world, in_two_hours)
    assert world.objects() == [(1, "uploading")]
    world.query("UPDATE objects SET changed_at = changed_at - interval '1 hour'")
    sweep_at(world, in_two_hours)
    assert world.objects() == [(1, "gone")]
    assert uploads(world) == []


def test_an_old_upload_with_a_young_part_stays_until_that_is_old(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    upload_id = world.store.create_multipart(KEY)
    world.store.upload_part(KEY, upload_id, 1, b"part")
    last = world.store.list_parts(KEY, upload_id)[1].sent
    original = ObjectStore.list_multiparts

    def begun_before(self: ObjectStore, prefix: str) -> list[Multipart]:
        """versitygw says that an upload began with its last part; other servers do not."""
        return [replace(one, begun=last - timedelta(minutes=1)) for one in original(self, prefix)]

    monkeypatch.setattr(ObjectStore, "list_multiparts", begun_before)
    sweep_at(world, last + timedelta(seconds=3599))
    assert uploads(world) == [upload_id]
    sweep_at(world, last + timedelta(seconds=3600))
    assert uploads(world) == []


def sweep_at(world: World, moment: datetime) -> None:
    topic = fs_parts(world.config.site)
    ownership = Ownership(world.catalog, topic)
    Orphans(world.catalog, world.store, ownership, topic, age_seconds=3600.0, now=lambda: moment).sweep(world.batch())


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("belongs", ["fs.parts.elsewhere", 5])
def test_what_belongs_to_others_is_left_to_them(world: World, lane: PartsLane, belongs: str | int) -> None:
    column = "claim_topic" if isinstance(belongs, str) else "claim_partition"
    world.query(f"UPDATE objects SET state = 'gone', {column} = %s", belongs)
    alone = replace(world.batch(), held=((fs_parts(world.config.site).name, 0),))
    lane.process(alone)
    assert len(uploads(world)) == 1


def test_a_key_that_is_no_object_is_left_alone(world: World, lane: PartsLane) -> None:
    world.store.create_multipart("objects/notes.txt")
    world.store.create_multipart(f"other/{KEY}")
    lane.process(world.batch())
    assert len(uploads(world)) == 2


@pytest.mark.usefixtures("begun")
def test_a_member_that_lost_its_partition_aborts_nothing(world: World) -> None:
    delete(world)
    topic = fs_parts(world.config.site)
    ownership = Ownership(world.catalog, topic)
    late = Orphans(world.catalog, world.store, ownership, topic, age_seconds=0.0)
    old = late.list_old({0})
    ownership.take(world.batch(), also={0})
    Ownership(world.catalog, topic).take(world.batch(), also={0})
    for write in (late.give_up, late.look, lambda _: late.sweep(world.batch())):
        with pytest.raises(Fenced):
            write(old)
    assert world.objects() == [(1, "uploading")]
    assert len(uploads(world)) == 1


def test_a_sweep_that_is_refused_holds_up_nothing(
    world: World, lane: PartsLane, begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise Refused("the key may not list uploads.")

    monkeypatch.setattr(ObjectStore, "list_multiparts", refused)
    assert [type(one.record) for one in lane.process(world.batch(begun[1]))] == [ObjectStored]


def test_a_sweep_comes_now_and_then_and_goes_on_where_there_is_more(
    world: World, lane: PartsLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_AT_ONCE", 2)
    for number in range(3):
        world.store.create_multipart(object_key(content_hash(b"%d" % number), 1))
    left = []
    for _ in range(3):
        lane.process(world.batch())
        left.append(len(uploads(world)))
    world.store.create_multipart(KEY)
    lane.process(world.batch())
    assert [*left, len(uploads(world))] == [1, 0, 0, 1]


@pytest.mark.fault
@pytest.mark.parametrize("die", ["Orphans.give_up", "Orphans.look", "ObjectStore.abort_multipart", "Orphans.sweep"])
def test_a_death_in_a_sweep_leaves_what_the_next_one_finishes(
    world: World, lane: PartsLane, begun: Any, die: str
) -> None:
    delete(world)
    world.store.create_multipart(object_key(content_hash(b"never claimed"), 1))
    assert world.run_child("PartsLane(config, catalog, store)", [], die=die) == 99
    assert world.objects() == [(1, "gone")]

    assert lane.process(world.batch()) == []
    assert uploads(world) == []
    assert [type(one.record) for one in lane.process(world.batch(*begun))] == [ObjectStored]
    assert world.objects() == [(1, "gone"), (2, "stored")]
