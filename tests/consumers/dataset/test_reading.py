"""Naming versions, listing them, reading a file, asking for a commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headwater.connectors.s3.store import ObjectStore
from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.reading import cat, ls, show
from headwater.consumers.dataset.requests import request_commit
from headwater.rules.errors import Corrupt, NotFound, Refused, Unavailable
from headwater.rules.identity import content_hash, dataset_path, object_key


def places(dataset: Dataset, ref: str, prefix: str = "") -> list[str]:
    return [row.place for row in ls(dataset, ref, prefix)]


def test_versions_are_named_by_number_tag_commit_and_latest(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"1")
    first = world.commit("one")
    world.write(b"a", b"22")
    second = world.commit("two")

    for ref in ("1", "v1", first.commit_id, first.commit_id[:10]):
        assert dataset.resolve(ref).version == 1
    assert dataset.resolve("latest").version == 2
    assert [(version.version, version.message) for version in dataset.log()] == [(2, "two"), (1, "one")]
    assert [version.version for version in dataset.log(limit=1)] == [2]
    assert show(dataset, "2").commit_id == second.commit_id


@pytest.mark.parametrize("ref", ["v2", "0", "main", "abcdef", "v1x", ""])
def test_a_name_of_no_version_says_how_to_find_one(world: Any, dataset: Dataset, ref: str) -> None:
    world.write(b"a", b"1")
    world.commit()

    with pytest.raises(NotFound, match=f"no published version is named '{ref}'.*headwater dataset log"):
        dataset.resolve(ref)


def test_an_unknown_dataset_says_so(world: Any) -> None:
    nowhere = Dataset("nowhere", world.catalog, world.objects, world.lakefs)

    with pytest.raises(NotFound, match="no dataset nowhere"):
        nowhere.resolve("latest")


def test_listing_follows_bases_and_deltas(world: Any, dataset: Dataset) -> None:
    for name in (b"a", b"b/1", b"b/2", b"b10", b"c", b"d"):
        world.write(name, name)
    world.commit()
    world.delete(b"a")
    world.commit()  # a delta
    world.write(b"c", b"edited")
    world.write(b"b/1", b"edited")
    world.write(b"new", b"new")
    third = world.commit()  # a full manifest as well
    world.delete(b"d")
    world.commit()  # a delta after it

    assert third.base_hash is not None
    assert places(dataset, "1") == ["films/a", "films/b/1", "films/b/2", "films/b10", "films/c", "films/d"]
    assert places(dataset, "2") == ["films/b/1", "films/b/2", "films/b10", "films/c", "films/d"]
    assert places(dataset, "3") == ["films/b/1", "films/b/2", "films/b10", "films/c", "films/d", "films/new"]
    assert places(dataset, "4") == ["films/b/1", "films/b/2", "films/b10", "films/c", "films/new"]
    assert places(dataset, "3", "films/b/") == ["films/b/1", "films/b/2"]
    assert {row.path: row.size for row in ls(dataset, "3", "films/c")} == {b"c": 6}


def test_each_version_keeps_its_bytes(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"before")
    world.write(b"bad\xff", b"odd")
    world.commit()
    world.write(b"a", b"afterwards")
    world.commit()

    assert b"".join(cat(dataset, "1", "films/a")) == b"before"
    assert b"".join(cat(dataset, "latest", "films/a")) == b"afterwards"
    assert b"".join(cat(dataset, "latest", dataset_path("films", b"bad\xff"))) == b"odd"


def test_reading_spoiled_bytes_raises(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"right")
    world.commit()
    world.objects.put(object_key(content_hash(b"right"), 1), b"wrong")

    with pytest.raises(Corrupt, match="--deep"):
        b"".join(cat(dataset, "1", "films/a"))


def test_what_cannot_be_read_says_why(world: Any, dataset: Dataset) -> None:
    world.link(b"link", b"../target")
    world.commit()

    with pytest.raises(Refused, match=r"symbolic link to '\.\./target'"):
        next(cat(dataset, "1", "films/link"))
    with pytest.raises(NotFound, match="has no 'films/lin'"):
        next(cat(dataset, "1", "films/lin"))


def test_a_spoiled_manifest_is_not_believed(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"1")
    version = world.commit()
    store: ObjectStore = world.objects
    digits = version.manifest_hash.hex()
    key = f"manifests/{digits[:2]}/{digits}.parquet"
    store.put(key, store.get(key)[:-1])

    with pytest.raises(Corrupt, match="does not have the hash"):
        places(dataset, "1")


def test_a_requested_commit_is_answered(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"1")
    world.start()

    made = request_commit(dataset, "by hand", wait_seconds=30)
    again = request_commit(dataset, wait_seconds=30)

    assert made is not None
    assert (made.version, made.message) == (1, "by hand")
    assert again is None


def test_requests_at_once_share_one_version(world: Any, dataset: Dataset) -> None:
    world.write(b"a", b"1")
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(request_commit(dataset, "together", wait_seconds=30)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    with world.catalog.transaction() as transaction:
        asked = transaction.execute("SELECT count(*) FROM commit_requests").fetchone()
    world.start()
    for thread in threads:
        thread.join(60)

    assert asked is not None
    assert len(answers) == 3
    assert [version.version for version in dataset.log()] == [1]


def test_a_request_without_a_committer_says_what_to_start(dataset: Dataset) -> None:
    with pytest.raises(Unavailable, match="headwater run commit"):
        request_commit(dataset, wait_seconds=0.1)
