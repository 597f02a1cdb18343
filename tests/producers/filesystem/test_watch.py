"""The coalescing set, and which paths the kernel's events make dirty."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.producers.filesystem.tree import Tree, parent_of
from headwater.producers.filesystem.watch import DirtySet, Watch

Eventually = Callable[..., Any]

PATHS = st.lists(st.sampled_from([b"%s/%d" % (d, n) for d in (b"a", b"a/b", b"c") for n in range(8)]), max_size=60)


@given(paths=PATHS, limit=st.integers(1, 10))
def test_every_dirty_path_is_named_by_itself_its_directory_or_everything(paths: list[bytes], limit: int) -> None:
    dirty = DirtySet(limit)
    for path in paths:
        dirty.add_path(path)
    assert len(dirty) <= limit + 1 + limit
    taken = dirty.take(1_000)
    assert len(taken.paths) == len(set(taken.paths))
    assert all(path in taken.paths or parent_of(path) in taken.directories or taken.everything for path in paths)
    assert len(dirty) == 0


def test_directories_and_trees_above_the_limit_become_everything() -> None:
    dirty = DirtySet(2)
    dirty.add_tree(b"a")
    dirty.add_directory(b"b")
    dirty.add_tree(b"c")
    assert dirty.take(10).everything


def test_what_does_not_fit_stays_in_the_set() -> None:
    dirty = DirtySet(10)
    for path in (b"1", b"2", b"3"):
        dirty.add_path(path)
    assert [dirty.take(2).paths, dirty.take(2).paths] == [(b"1", b"2"), (b"3",)]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Path, Watch, DirtySet]]:
    dirty = DirtySet(1_000)
    watch = Watch(Tree(tmp_path), dirty, Event().set)
    watch.start()
    yield tmp_path, watch, dirty
    watch.close()


def test_events_name_the_path(watched: tuple[Path, Watch, DirtySet], eventually: Eventually) -> None:
    root, watch, dirty = watched
    watch.add(b"")
    (root / "file").write_bytes(b"x")
    eventually(lambda: b"file" in dirty.take(10).paths)
    os.truncate(root / "file", 0)
    eventually(lambda: b"file" in dirty.take(10).paths)
    (root / "file").chmod(0o600)
    eventually(lambda: b"file" in dirty.take(10).paths)
    (root / "folder").mkdir()
    eventually(lambda: b"folder" in dirty.take(10).trees)


def test_a_moved_directory_is_heard_under_its_new_name_once_it_is_added_again(
    watched: tuple[Path, Watch, DirtySet], eventually: Eventually
) -> None:
    root, watch, dirty = watched
    (root / "old/sub").mkdir(parents=True)
    for path in (b"", b"old", b"old/sub"):
        watch.add(path)
    (root / "old").rename(root / "new")
    trees: set[bytes] = set()
    eventually(lambda: trees.update(dirty.take(10).trees) or trees == {b"old", b"new"})
    watch.add(b"new")
    watch.add(b"new/sub")
    (root / "new/sub/file").touch()
    eventually(lambda: b"new/sub/file" in dirty.take(10).paths)
    (root / "new/file").touch()
    eventually(lambda: b"new/file" in dirty.take(10).paths)
