"""The walk on a real tree and a real index, with a listener in the place of what it tells."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.filters import Filters
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.reach import Reach
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.tree import Entry, Tree, entry_of, footprint_of
from headwater.producers.filesystem.walk import STEP_ENTRIES, Walk
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.inotify import InotifyWatch


class Heard:
    """What the walk asked to be considered, by path."""

    def __init__(self) -> None:
        self.considered: dict[bytes, KnownFile | None] = {}

    def consider(self, entry: Entry, known: KnownFile | None) -> None:
        self.considered[entry.path] = known


def known(path: bytes, entry: Entry) -> KnownFile:
    return KnownFile(
        path=path,
        file_type=entry.file_type,
        signature=entry.signature,
        attributes=entry.attributes,
        hash=b"h" * 32,
        parts=0,
        link_target=None,
        strong=True,
        seq=1,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "root").mkdir()
    return Tree(tmp_path / "root")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with closing(Index(tmp_path / "state", "s")) as index:
        yield index


@pytest.fixture
def walk(tmp_path: Path, tree: Tree, index: Index) -> Iterator[Callable[[], dict[bytes, KnownFile | None]]]:
    """List every directory once; returns what was considered."""
    config = AgentConfig("s", "here", "films", tmp_path / "root", tmp_path / "state")
    watch, mounts = InotifyWatch(tree, DirtySet(100), lambda: None), Mounts(tree.root)
    reach = Reach(tree, mounts, watch)

    def run() -> dict[bytes, KnownFile | None]:
        heard: Any = Heard()
        recorder = Recorder(config, tree, index, time.time)
        walk = Walk(config, tree, Filters((), ()), index, mounts, reach, heard, recorder, time.time)
        with index.transaction():
            walk.start_over()
            while walk.step():
                pass
        return dict(heard.considered)

    yield run
    watch.close()
    mounts.close()


def remember(index: Index, tree: Tree) -> None:
    with index.transaction():
        for entry in tree.entries(b""):
            index.files.put(known(entry.path, entry), None, sent_at=0)


def make(root: Path) -> None:
    (root / "file").write_bytes(b"12")
    (root / "file").chmod(0o640)
    os.utime(root / "file", ns=(5, 1_234_567_890_123_456_789))
    (root / "link").symlink_to("nowhere")
    (root / "folder").mkdir()
    os.mkfifo(root / "fifo")
    (root / os.fsdecode(b"\xff")).touch()


def test_the_footprint_of_a_stat_is_that_of_its_entry(tmp_path: Path) -> None:
    make(tmp_path)
    for place in tmp_path.iterdir():
        found = place.lstat()
        entry = entry_of(os.fsencode(place.name), found)
        assert footprint_of(found) == entry.footprint == known(entry.path, entry).footprint


def test_the_index_gives_back_the_footprint_that_it_was_given(tmp_path: Path, tree: Tree, index: Index) -> None:
    make(tmp_path / "root")
    remember(index, tree)
    entries = {entry.path: entry.footprint for entry in tree.entries(b"")}
    assert index.files.footprints(b"", [*entries, b"other"]) == entries
    with index.transaction():
        index.files.mark_missing(b"file", 1.0)
    assert index.files.footprints(b"", [b"file"]) == {b"file": None}


def test_what_is_as_it_was_is_passed_over_and_the_rest_is_considered(
    tmp_path: Path, tree: Tree, index: Index, walk: Any
) -> None:
    root = tmp_path / "root"
    for number in range(STEP_ENTRIES + 500):
        (root / f"{number}").write_bytes(b"1")
    remember(index, tree)
    assert walk() == {}

    (root / "7").write_bytes(b"23")
    (root / "8").chmod(0o600)
    os.utime(root / "9", ns=(1, 1))
    (root / "new").touch()
    with index.transaction():
        index.files.mark_missing(b"10", 1.0)
    considered = walk()
    assert considered.keys() == {b"7", b"8", b"9", b"10", b"new"}
    assert considered[b"new"] is None
    assert considered[b"10"] == index.files.get(b"10")


def test_what_is_as_it_was_is_considered_where_somebody_waits_for_it(
    tmp_path: Path, tree: Tree, index: Index, walk: Any
) -> None:
    for name in ("plain", "excepted", "asked"):
        (tmp_path / "root" / name).touch()
    remember(index, tree)
    with index.transaction():
        index.exceptions.put(b"excepted", "busy: x", 1e12)
        index.requests.mark(b"asked", "torn")
    assert walk().keys() == {b"excepted", b"asked"}


def test_memory_does_not_grow_with_the_number_of_files(
    tmp_path: Path, tree: Tree, index: Index, walk: Callable[[], dict[bytes, KnownFile | None]]
) -> None:
    """Case 16, scaled down: the peak while 2,000, then 20,000 known files of one directory are listed and compared."""
    peaks = []
    for count in (2_000, 20_000):
        folder = tmp_path / "root" / f"{count}"
        folder.mkdir()
        (folder / "0").touch()
        for number in range(1, count):
            os.link(folder / "0", folder / f"{number}")
        with index.transaction():
            for entry in tree.entries(folder.name.encode()):
                index.files.put(known(entry.path, entry), None, sent_at=0)
        tracemalloc.start()
        walk()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    few, many = peaks
    assert many < 1.2 * few, f"{few:,} bytes for 2,000 files, {many:,} for 20,000"
