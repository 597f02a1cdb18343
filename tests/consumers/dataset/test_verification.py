"""Proving a version: what is right passes, each kind of harm is found and named."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.verification import verify
from headwater.rules.identity import content_hash, object_key


@pytest.fixture
def committed(world: Any) -> Any:
    world.write(b"a", b"one")
    world.write(b"b", b"two" * 1000)
    world.write(b"twin", b"one")
    world.write(b"odd\xff", b"odd")
    world.link(b"link", b"a")
    world.checkpoint()
    world.commit()
    return world


@pytest.mark.usefixtures("committed")
def test_a_right_version_is_right(dataset: Dataset) -> None:
    steps: list[tuple[int, int]] = []

    proved = verify(dataset, "v1", deep=True, progress=lambda *now: steps.append(now))

    assert proved.is_right, proved.problems
    assert (proved.files, proved.objects_read, proved.bytes_read) == (5, 3, 3 + 3000 + 3)
    assert steps[-1] == (5 + 3, 3006)


def test_places_that_some_readers_take_for_one_are_counted_and_right(committed: Any, dataset: Dataset) -> None:
    for path in (b"A", b"Twin/x", "caf\u00e9".encode(), "cafe\u0301".encode(), b"odd\xfe"):
        committed.write(path, b"one")
    committed.checkpoint()
    committed.commit()

    proved = verify(dataset, "latest")

    assert proved.is_right, proved.problems
    assert proved.collision_count == 3
    assert set(map(str, proved.collisions)) == {
        "films/A and films/a",
        "films/Twin and films/twin",
        r"films/cafe\u0301 and films/caf\xe9",
    }
    assert verify(dataset, "v1").collisions == ()


def test_a_flipped_byte_is_found_by_reading(committed: Any, dataset: Dataset) -> None:
    committed.objects.put(object_key(content_hash(b"two" * 1000), 1), b"twx" + b"two" * 999)

    assert verify(dataset, "v1").is_right
    proved = verify(dataset, "v1", deep=True)

    (problem,) = proved.problems
    assert "films/b" in problem
    assert content_hash(b"two" * 1000).hex() in problem


def test_a_missing_object_is_found_by_reading(committed: Any, dataset: Dataset) -> None:
    address = urlsplit(committed.addresses.bucket)
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://{address.hostname}:{address.port}",
        aws_access_key_id=address.username,
        aws_secret_access_key=address.password,
        region_name="us-east-1",
    )
    s3.delete_object(Bucket=address.path.strip("/"), Key=object_key(content_hash(b"odd"), 1))
    s3.close()

    proved = verify(dataset, "v1", deep=True)

    assert proved.problem_count == 1
    assert "films/odd" in proved.problems[0]


def forge(committed: Any, change: Any) -> None:
    """Make version 1 name a commit that somebody altered, with the right metadata."""
    repository, commit = committed.dataset, committed.lakefs.head_of(committed.dataset, "v1")
    committed.lakefs.create_branch(repository, "forged", commit.id)
    change(repository, "forged")
    forged = committed.lakefs.commit(repository, "forged", "forged", dict(commit.metadata))
    with committed.catalog.transaction() as transaction:
        transaction.execute("UPDATE versions SET commit_id = %s", [forged.id])


def test_a_foreign_path_is_found(committed: Any, dataset: Dataset) -> None:
    entry = next(committed.lakefs.list_objects(committed.dataset, "v1"))
    forge(committed, lambda *where: committed.lakefs.link(*where, [replace(entry, path="films/foreign")], at_once=1))

    assert verify(dataset, "v1").problems == ("'films/foreign' is in the commit and not in the manifest",)


def test_a_missing_link_is_found(committed: Any, dataset: Dataset) -> None:
    forge(committed, lambda *where: committed.lakefs.unlink(*where, ["films/a"]))

    assert verify(dataset, "v1").problems == ("'films/a' is in the manifest and not in the commit",)


def test_a_link_to_another_object_is_found(committed: Any, dataset: Dataset) -> None:
    entry = next(committed.lakefs.list_objects(committed.dataset, "v1"))
    # An address alone is no change to lakeFS: it would keep the entry that it has.
    other = replace(entry, physical_address=entry.physical_address[:-1] + "2", metadata={"generation": "2"})
    forge(committed, lambda *where: committed.lakefs.link(*where, [other], at_once=1))

    (problem,) = verify(dataset, "v1").problems
    assert "films/a" in problem


def test_a_commit_that_names_another_manifest_is_found(committed: Any, dataset: Dataset) -> None:
    commit = committed.lakefs.head_of(committed.dataset, "v1")
    committed.lakefs.create_branch(committed.dataset, "forged", commit.id)
    forged = committed.lakefs.commit(committed.dataset, "forged", "", {**commit.metadata, "manifest": "ab"})
    with committed.catalog.transaction() as transaction:
        transaction.execute("UPDATE versions SET commit_id = %s", [forged.id])

    (problem,) = verify(dataset, "v1").problems
    assert "names the manifest ab" in problem


def test_wrong_counts_and_a_spoiled_manifest_are_found(committed: Any, dataset: Dataset) -> None:
    with committed.catalog.transaction() as transaction:
        transaction.execute("UPDATE versions SET files = 6")
    (problem,) = verify(dataset, "v1").problems
    assert "the manifest holds 5 files" in problem
    digits = dataset.resolve("v1").manifest_hash.hex()  # type: ignore[union-attr]
    committed.objects.put(f"manifests/{digits[:2]}/{digits}.parquet", b"PAR1")

    (problem,) = verify(dataset, "v1").problems
    assert "does not have the hash" in problem


def test_the_source_itself_is_compared_below_the_cut(world: Any, dataset: Dataset, tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    contents = {b"right": b"right", b"edited": b"before", b"gone": b"gone", b"longer": b"long", b"deep/er": b"deep"}
    for name, data in contents.items():
        world.write(name, data)
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        Path(os.fsdecode(os.path.join(root, name))).write_bytes(data)
    world.link(b"link", b"right")
    os.symlink(b"right", os.path.join(root, b"link"))
    world.checkpoint()
    world.write(b"beyond the cut", b"not on disk at all")
    world.commit()
    assert verify(dataset, "v1", source_roots={"films": root}).problems == ()

    (tmp_path / "edited").write_bytes(b"befOre")
    (tmp_path / "gone").unlink()
    (tmp_path / "longer").write_bytes(b"longer")
    (tmp_path / "deep").rename(tmp_path / "elsewhere")
    (tmp_path / "deep").symlink_to("elsewhere")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("edited")
    proved = verify(dataset, "v1", source_roots={"films": root})

    assert proved.source_files == 6
    found = {problem.split(": ")[0].rpartition("/")[2] for problem in proved.problems}
    assert found == {"edited", "gone", "longer", "er", "link"}


def test_a_source_without_a_cut_proves_nothing(world: Any, dataset: Dataset, tmp_path: Path) -> None:
    world.write(b"a", b"a")
    world.commit()

    (problem,) = verify(dataset, "v1", source_roots={"films": os.fsencode(tmp_path)}).problems

    assert "promises nothing" in problem
