"""Verify against a real catalog and a real S3 server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import metrics
from headwater.rules.errors import BadSettings, Unavailable
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.records import (
    ChangeKind,
    ObjectStored,
    ObjectVerified,
    RequestReason,
    SyncRequest,
    Verdict,
    VerifyMode,
)
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.parts_lane import PartsLane
from headwater.streams.verify.config import VerifyConfig
from headwater.streams.verify.verifier import Verifier, chosen

World = Any
value = REGISTRY.get_sample_value
PART = 5 * 1024 * 1024


@pytest.fixture
def verifier(world: World) -> Iterator[Verifier]:
    verifier = Verifier(VerifyConfig(), world.catalog, world.store)
    yield verifier
    verifier.close()


@pytest.fixture
def files(world: World) -> Iterator[FilesLane]:
    lane = FilesLane(world.config, world.catalog, world.store)
    yield lane
    lane.close()


def test_its_verdicts_are_counted_from_zero_so_that_an_alert_sees_the_first(verifier: Verifier) -> None:
    metrics.VERIFY_OBJECTS.remove("verify-large", "condemned")
    Verifier(VerifyConfig(), verifier._catalog, verifier._store, large=True).close()
    assert value("headwater_verify_objects_total", {"lane": "verify-large", "verdict": "condemned"}) == 0


def stored(world: World, files: FilesLane, name: bytes = b"one", data: bytes = b"light") -> ObjectStored:
    world.write(name, data)
    record = files.process(world.batch(world.change(name)))[0].record
    assert isinstance(record, ObjectStored)
    return record


def stored_large(world: World, data: bytes) -> ObjectStored:
    world.write(b"film.mp4", data)
    lane = PartsLane(world.config, world.catalog, world.store)
    files = FilesLane(world.config, world.catalog, world.store)
    files.process(world.batch(world.change(b"film.mp4", parts=3)))
    record = lane.process(world.batch(*world.parts(b"film.mp4", PART)))[0].record
    lane.close()
    files.close()
    assert isinstance(record, ObjectStored)
    return record


def overwrite(world: World, key: str, data: bytes) -> None:
    """Change stored bytes behind everybody's back, as a failing disk would."""
    config = world.store.config
    client = boto3.client(
        "s3",
        endpoint_url=config.endpoint,
        region_name=config.region,
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key,
    )
    client.put_object(Bucket=config.bucket, Key=key, Body=data)
    client.close()


def test_a_stored_object_is_verified_once_and_announced_each_time(
    world: World, files: FilesLane, verifier: Verifier
) -> None:
    record = stored(world, files)
    batch = world.batch(record)
    outputs = verifier.process(batch)
    assert [(one.topic.name, one.record) for one in outputs] == [
        (
            "sync.verified",
            ObjectVerified(
                hash=record.hash, generation=1, size=5, verdict=Verdict.verified, mode=VerifyMode.full
            ),
        )
    ]  # fmt: skip
    assert world.state(record.hash) == "verified"
    assert world.counters()["objects_verified"] == 1
    assert world.counters()["bytes_verified"] == 5

    gets = len(world.passage.sent("GET .*objects/"))
    assert verifier.process(batch) == outputs
    assert len(world.passage.sent("GET .*objects/")) == gets
    assert world.counters()["objects_verified"] == 1


@pytest.mark.parametrize("corrupt", [b"lighs", b"ligh", b"", b"light!"])
def test_a_corrupt_object_is_condemned_and_the_next_generation_stands_beside_it(
    world: World, files: FilesLane, verifier: Verifier, corrupt: bytes
) -> None:
    record = stored(world, files)
    overwrite(world, object_key(record.hash, 1), corrupt)
    verdict, request = (one.record for one in verifier.process(world.batch(record)))

    assert isinstance(verdict, ObjectVerified)
    assert verdict.verdict is Verdict.condemned
    assert verdict.detail
    assert isinstance(request, SyncRequest)
    assert (request.path, request.reason) == (b"one", RequestReason.condemned)
    assert world.counters() == {"files": 1, "bytes": 5, "objects_condemned": 1}

    again = files.process(world.batch(world.change(b"one", ChangeKind.modified)))[0].record
    assert isinstance(again, ObjectStored)
    assert again.generation == 2
    outputs = verifier.process(world.batch(record, again))
    assert {(one.record.generation, one.record.verdict) for one in outputs} == {  # type: ignore[attr-defined]
        (1, Verdict.condemned),
        (2, Verdict.verified),
    }
    assert world.store.get(object_key(record.hash, 1)) == corrupt, "evidence is kept"
    assert world.store.get(object_key(record.hash, 2)) == b"light"


def test_an_object_that_is_not_there_is_condemned(world: World, files: FilesLane, verifier: Verifier) -> None:
    record = stored(world, files)
    world.query("UPDATE objects SET generation = 7")
    missing = ObjectStored(hash=record.hash, generation=7, size=5, source="nas1")
    outputs = verifier.process(world.batch(missing))
    assert "not there" in outputs[0].record.detail  # type: ignore[attr-defined]


def test_a_record_of_an_object_that_the_catalog_does_not_know_says_nothing(world: World, verifier: Verifier) -> None:
    assert verifier.process(world.batch(ObjectStored(hash=b"x" * 32, generation=1, size=1, source="nas1"))) == []


def test_a_large_object_is_verified_part_by_part(world: World) -> None:
    record = stored_large(world, random.Random(1).randbytes(2 * PART + 9))
    verifier = Verifier(VerifyConfig(), world.catalog, world.store, large=True)
    outputs = verifier.process(world.batch(record))
    assert [one.record.verdict for one in outputs] == [Verdict.verified]  # type: ignore[attr-defined]
    assert len(world.passage.sent("GET .*objects/")) == 3
    verifier.close()


def test_the_same_bytes_in_other_parts_are_equal(world: World) -> None:
    """Case 18: an ETag is made of the parts that a tool chose; what counts are the bytes."""
    data = random.Random(4).randbytes(2 * PART + 9)
    record = stored_large(world, data)
    key = object_key(record.hash, 1)
    before = world.store.head(key)
    upload = world.store.create_multipart(key)
    cuts = (data[: 8 * 1024 * 1024], data[8 * 1024 * 1024 :])
    etags = {number: world.store.upload_part(key, upload, number, cut) for number, cut in enumerate(cuts, 1)}
    world.store.complete_multipart(key, upload, etags)
    assert world.store.head(key).etag != before.etag
    verifier = Verifier(VerifyConfig(), world.catalog, world.store, large=True)
    assert [one.record.verdict for one in verifier.process(world.batch(record))] == [Verdict.verified]  # type: ignore[attr-defined]
    verifier.close()


def test_a_flipped_bit_in_a_large_object_names_its_part(world: World) -> None:
    data = bytearray(random.Random(2).randbytes(2 * PART + 9))
    record = stored_large(world, bytes(data))
    data[PART + 17] ^= 1
    overwrite(world, object_key(record.hash, 1), bytes(data))
    verifier = Verifier(VerifyConfig(), world.catalog, world.store, large=True)
    verdict, request = (one.record for one in verifier.process(world.batch(record)))
    assert isinstance(verdict, ObjectVerified)
    assert f"part 1 (from byte {PART})" in verdict.detail
    assert isinstance(request, SyncRequest)
    verifier.close()


def test_parts_that_leave_a_gap_condemn_their_object(world: World) -> None:
    record = stored_large(world, random.Random(3).randbytes(2 * PART + 9))
    world.query("DELETE FROM object_parts WHERE index = 1")
    verifier = Verifier(VerifyConfig(), world.catalog, world.store, large=True)
    outputs = verifier.process(world.batch(record))
    assert "not at" in outputs[0].record.detail  # type: ignore[attr-defined]
    verifier.close()


def test_a_sample_reads_only_what_its_hashes_choose_but_looks_every_object_up(world: World, files: FilesLane) -> None:
    records = [stored(world, files, name, name) for name in (b"one", b"two", b"three", b"four")]
    overwrite(world, object_key(records[0].hash, 1), b"longer than before")
    verifier = Verifier(VerifyConfig(sample_percent=0), world.catalog, world.store)
    outputs = verifier.process(world.batch(*records))
    verdicts = {one.record.hash: one.record for one in outputs if isinstance(one.record, ObjectVerified)}
    assert [verdicts[one.hash].verdict for one in records] == [
        Verdict.condemned, Verdict.verified, Verdict.verified, Verdict.verified
    ]  # fmt: skip
    assert {one.mode for one in verdicts.values()} == {VerifyMode.sample}
    assert world.passage.sent("GET .*objects/") == []
    verifier.close()


def test_an_outage_keeps_what_was_judged(world: World, files: FilesLane, monkeypatch: Any) -> None:
    first, second = sorted((stored(world, files, name, name) for name in (b"one", b"two")), key=lambda one: one.hash)
    verifier = Verifier(VerifyConfig(reads=1), world.catalog, world.store)
    original = ObjectStore.chunks

    def failing(self: ObjectStore, key: str) -> Any:
        if key == object_key(second.hash, 1):
            raise Unavailable("S3 is down.")
        return original(self, key)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "chunks", failing)
        with pytest.raises(Unavailable):
            verifier.process(world.batch(first, second))
    assert world.state(first.hash) == "verified"
    assert world.state(second.hash) == "stored"
    assert len(verifier.process(world.batch(first, second))) == 2
    verifier.close()


@pytest.mark.fault
@pytest.mark.parametrize("die", ["Verifier.find", "Verifier.examine", "Verifier.judge", "Verifier.outputs"])
@pytest.mark.parametrize("corrupt", [False, True])
def test_a_death_after_any_step_loses_no_verdict(
    world: World, files: FilesLane, verifier: Verifier, die: str, corrupt: bool
) -> None:
    record = stored(world, files)
    if corrupt:
        overwrite(world, object_key(record.hash, 1), b"lighs")
    build = "Verifier(VerifyConfig(), catalog, store)"
    assert world.run_child(build, [record], die=die) == 99

    outputs = verifier.process(world.batch(record))
    kinds = [type(one.record) for one in outputs]
    assert kinds == ([ObjectVerified, SyncRequest] if corrupt else [ObjectVerified])
    assert world.counters().get("objects_verified", 0) == (0 if corrupt else 1)


def test_a_server_that_is_away_condemns_nothing(world: World, files: FilesLane) -> None:
    record = stored(world, files)
    config = S3Config(
        bucket="away", endpoint="http://127.0.0.1:1", access_key_id="a", secret_access_key="b", attempts=1
    )
    verifier = Verifier(VerifyConfig(), world.catalog, ObjectStore(config))
    with pytest.raises(Unavailable):
        verifier.process(world.batch(record))
    assert world.state(record.hash) == "stored"
    verifier.close()


@given(st.binary(min_size=32, max_size=32))
def test_a_sample_grows_with_its_percentage_and_is_a_function_of_the_hash(content: bytes) -> None:
    choices = [chosen(content, percent) for percent in range(101)]
    assert choices == sorted(choices)
    assert choices[0] is False
    assert choices[100] is True
    assert choices == [chosen(content, percent) for percent in range(101)]


def test_a_sample_of_ten_percent_is_about_a_tenth() -> None:
    hits = sum(chosen(content_hash(str(number).encode()), 10) for number in range(10_000))
    assert 850 < hits < 1150


def test_a_percentage_that_is_none_is_refused() -> None:
    with pytest.raises(BadSettings, match="sample_percent"):
        VerifyConfig(sample_percent=101)
