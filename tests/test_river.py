"""The main job from end to end, as a user runs it: a folder, `headwater up`, edits, kills, and what the version holds.

The verdict is not ours: the folder is read with hashlib, the version through lakeFS's own HTTP API and S3 by boto3.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.stack.addresses import Addresses
from headwater.stack.s3 import client
from tests.any_tree import CHANGES, DEEP, AnyTree, Change, state_of

MEBIBYTE = 1024 * 1024


class River:
    """One installation with names of its own on the shared servers, driven through the command line only."""

    def __init__(self, folder: Path, addresses: Addresses, prefix: str, dsn: str, bucket: str) -> None:
        self.root = folder / "photos"
        self.root.mkdir()
        self.folder = folder
        self.dataset = f"film-{uuid.uuid4().hex[:8]}"
        self.bucket = bucket
        self.lakefs = addresses.lakefs
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")} | {
            "HEADWATER_KAFKA": addresses.kafka,
            "HEADWATER_POSTGRES": dsn,
            "HEADWATER_S3": bucket,
            "HEADWATER_LAKEFS": addresses.lakefs,
            "HEADWATER_KAFKA__PREFIX": prefix,
        }
        (folder / "headwater.toml").write_text(
            f"""
            state_folder = "state"
            site = "lab"
            dataset = "{self.dataset}"
            [sources.photos]
            root = "photos"
            settle_seconds = 0.2
            weak_settle_seconds = 0.5
            delete_hold_seconds = 0.5
            deletes_unasked = 10000
            """
        )

    def run(self, *words: str, expected: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "headwater.cli", *words],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == expected, f"headwater {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def processes(self) -> dict[str, dict[str, Any]]:
        return {process["name"]: process for process in json.loads(self.run("status", "--json"))["processes"]}

    def kill(self, name: str) -> None:
        os.kill(self.processes()[name]["pid"], signal.SIGKILL)

    def is_quiet(self) -> bool:
        """The agent knows of nothing that is not on the log, verified, or named."""
        with urllib.request.urlopen(f"{self.processes()['agent-photos']['url']}/healthz", timeout=5) as answer:
            agent = json.load(answer)["facts"]
        busy = ("dirty", "settling", "reading", "held", "outbox", "pending", "directories_due")
        return bool(agent["walked"]) and not any(agent[name] for name in busy)

    def puts(self) -> int:
        """Objects that S3 holds for this installation, generation by generation."""
        s3, name = client(self.bucket), urllib.parse.urlsplit(self.bucket).path.strip("/")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix="objects/")
        return sum(len(page.get("Contents", ())) for page in pages)

    def lose(self, name: str) -> None:
        """Somebody deletes the object of a file in S3."""
        (address,) = [entry["physical_address"] for entry in self._listing() if entry["path"] == name]
        bucket, _, key = address.removeprefix("s3://").partition("/")
        client(self.bucket).delete_object(Bucket=bucket, Key=key)

    def tree(self) -> dict[str, str]:
        """SHA-256 of every file of the folder, by its path in the dataset."""
        return {
            f"photos/{path.relative_to(self.root)}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink()
        }

    def version(self) -> dict[str, str]:
        """SHA-256 of every file of the newest version, found by lakeFS and read from S3 by the address that lakeFS
        names."""
        s3 = client(self.bucket)
        found = {}
        for entry in self._listing():
            bucket, _, key = entry["physical_address"].removeprefix("s3://").partition("/")
            with s3.get_object(Bucket=bucket, Key=key)["Body"] as body:
                data = body.read()
            assert len(data) == entry["size_bytes"]
            found[entry["path"]] = hashlib.sha256(data).hexdigest()
        return found

    def _listing(self) -> Iterator[dict[str, Any]]:
        """The newest version by its commit: the branch main follows a moment after a version is published."""
        reference = json.loads(self.run("dataset", "log", "--json"))[0]["commit_id"]
        parts = urllib.parse.urlsplit(self.lakefs)
        after = ""
        while True:
            query = urllib.parse.urlencode({"amount": 1000, "after": after})
            request = urllib.request.Request(
                f"{parts.scheme}://{parts.hostname}:{parts.port}/api/v1/repositories/{self.dataset}"
                f"/refs/{reference}/objects/ls?{query}"
            )
            token = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
            with urllib.request.urlopen(request, timeout=10) as answer:
                page = json.load(answer)
            yield from page["results"]
            if not page["pagination"]["has_more"]:
                return
            after = page["pagination"]["next_offset"]


@pytest.fixture
def river(tmp_path: Path, stack: Addresses, kafka_prefix: str, catalog_dsn: str, bucket: str) -> Iterator[River]:
    river = River(tmp_path, stack, kafka_prefix, catalog_dsn, bucket)
    yield river
    river.run("down")


def write(path: Path, size: int, random_bytes: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random_bytes.randbytes(size))


@pytest.mark.timeout(240)
def test_versions_equal_the_folder_through_edits_and_kills(river: River, eventually: Callable[..., object]) -> None:
    # given a folder with files small and large, and a whole installation
    content = random.Random(7)
    for number in range(60):
        write(river.root / f"day {number % 4}" / f"{number}.jpg", content.randrange(1, 200_000), content)
    write(river.root / "clip.mp4", 70 * MEBIBYTE, content)
    write(river.root / "empty.txt", 0, content)
    (river.root / "copy of clip.mp4").write_bytes((river.root / "clip.mp4").read_bytes())
    (river.root / "day 0" / "été\n🎬.png").write_bytes(b"an odd name")

    # when it is brought up and all is quiet, a version equals the folder
    river.run("up")
    eventually(river.is_quiet, within_seconds=60)
    river.run("dataset", "commit", "--message", "as found")
    first = river.version()
    names = {name for name in river.tree() if "\n" not in name}
    assert {name: first[name] for name in names} == {name: river.tree()[name] for name in names}
    assert sorted(first.values()) == sorted(river.tree().values())
    sent = river.puts()
    assert sent == len(set(river.tree().values())), "the same bytes are stored once"

    # and when files are edited, renamed, deleted and added while every process is killed in turn
    moved = river.tree()["photos/clip.mp4"]
    (river.root / "clip.mp4").rename(river.root / "renamed clip.mp4")
    (river.root / "day 1").rename(river.root / "moved day")
    victims = sorted(river.processes())
    for number, victim in enumerate(victims):
        write(river.root / "new" / f"{number}.jpg", 100_000, content)
        (river.root / "day 2" / f"{4 * number + 2}.jpg").write_bytes(b"edited %d" % number)
        river.kill(victim)
        (river.root / "day 3" / f"{4 * number + 3}.jpg").unlink()
        river.run("up")
    eventually(river.is_quiet, within_seconds=90)
    river.run("dataset", "commit", "--message", "after the kills")

    # then the second version equals the folder, and what was only moved was not sent again
    second = river.version()
    odd = [name for name in river.tree() if "\n" in name]
    assert len(odd) == 1
    expected = river.tree()
    assert {name: second[name] for name in expected if name not in odd} == {
        name: expected[name] for name in expected if name not in odd
    }
    assert sorted(second.values()) == sorted(expected.values())
    assert second["photos/renamed clip.mp4"] == moved
    assert river.puts() == sent + 2 * len(victims)

    # and our own proof and the exported tree agree
    river.run("dataset", "verify", "latest", "--deep")
    river.run("dataset", "export", "latest", "out")
    exported = {
        path.relative_to(river.folder / "out").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (river.folder / "out").rglob("*")
        if path.is_file()
    }
    assert exported == expected
    log = json.loads(river.run("dataset", "log", "--json"))
    assert [version["version"] for version in log] == [2, 1]


@pytest.mark.timeout(240)
def test_an_object_that_vanished_from_s3_is_in_the_next_version_again(
    river: River, eventually: Callable[..., object]
) -> None:
    # given a version, of which S3 loses a small and a large object behind our back
    content = random.Random(11)
    write(river.root / "kept.jpg", 1_000, content)
    write(river.root / "lost.jpg", 1_000, content)
    write(river.root / "lost.mp4", 66 * MEBIBYTE, content)
    river.run("up")
    eventually(river.is_quiet, within_seconds=60)
    river.run("dataset", "commit")
    for name in ("photos/lost.jpg", "photos/lost.mp4"):
        river.lose(name)

    # when the version is proved byte for byte
    said = river.run("dataset", "verify", "--deep", expected=1)

    # then both are condemned and asked for, and the next version is whole again without anybody's help
    assert "Objects condemned: 2. Files asked for again: 2 (of photos)" in said
    eventually(lambda: river.puts() == 3, within_seconds=60)
    eventually(river.is_quiet, within_seconds=60)
    river.run("dataset", "commit")
    assert river.version() == river.tree()
    river.run("dataset", "verify", "--deep")


@pytest.fixture
def flowing(river: River, eventually: Callable[..., object]) -> tuple[River, AnyTree]:
    """A river that is up, and a tree with nothing but its anchor."""
    outside = river.folder / "outside"
    outside.mkdir()
    tree = AnyTree(river.root, outside)
    river.run("up")
    eventually(river.is_quiet, within_seconds=60)
    return river, tree


@pytest.mark.timeout(0 if DEEP else 300)
@settings(
    max_examples=100 if DEEP else 2,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # each day begins with the tree that the one before left
    suppress_health_check=list(HealthCheck),
)
@given(morning=st.lists(CHANGES, min_size=20), night=st.lists(CHANGES, min_size=20), victim=st.integers(0, 99))
def test_after_any_day_a_version_equals_the_tree_byte_for_byte(
    morning: list[Change],
    night: list[Change],
    victim: int,
    flowing: tuple[River, AnyTree],
    eventually: Callable[..., object],
) -> None:
    river, tree = flowing
    names = sorted(river.processes())
    for change in morning:
        tree.do(change)
    river.kill(names[victim % len(names)])
    for change in night:
        tree.do(change)
    tree.close()
    river.run("up")
    eventually(river.is_quiet, within_seconds=60)
    river.run("dataset", "commit", "--message", "any day")

    expected = tree.state()
    shutil.rmtree(river.folder / "out", ignore_errors=True)
    river.run("dataset", "export", "latest", "out")
    exported = state_of(os.fsencode(river.folder / "out" / "photos"))
    assert exported == expected
    assert sorted(river.version().values()) == sorted(river.tree().values())
    river.run("dataset", "verify", "latest", "--deep")
