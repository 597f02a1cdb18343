"""Which directories are not the filesystem that was listed there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.root import misplaced
from headwater.producers.filesystem.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "root/folder/sub").mkdir(parents=True)
    (tmp_path / "root/folder/sub/file").write_bytes(b"x")
    return Tree(tmp_path / "root")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with closing(Index(tmp_path / "state", "s")) as index:
        yield index


@pytest.fixture
def mounts(tree: Tree) -> Iterator[Mounts]:
    with closing(Mounts(tree.root)) as mounts:
        yield mounts


def list_as(index: Index, path: bytes, *, is_mount: bool) -> None:
    with index.transaction():
        index.directories.make_due(path, 0)
        index.directories.listed(path, at=time.time(), is_mount=is_mount)


def know(index: Index, tree: Tree, path: bytes) -> None:
    entry = tree.stat(path)
    with index.transaction():
        file = KnownFile(path, entry.file_type, entry.signature, entry.attributes, b"h" * 32, 0, None, True, 1)
        index.files.put(file, None, sent_at=0)


def test_a_plain_folder_is_where_it_was(tree: Tree, index: Index, mounts: Mounts) -> None:
    know(index, tree, b"folder/sub/file")
    list_as(index, b"folder", is_mount=False)
    assert misplaced(mounts, index, b"folder/sub") is None
    assert misplaced(mounts, index, b"unknown") is None


def test_what_was_a_mount_and_is_none_hides_all_that_is_below(index: Index, mounts: Mounts) -> None:
    list_as(index, b"folder", is_mount=True)
    for path in (b"folder", b"folder/sub", b"folder/sub/deeper"):
        found = misplaced(mounts, index, path)
        assert found is not None
        assert (found[0], found[1].partition(":")[0]) == (b"folder", "unmounted")


def test_a_mount_over_known_files_hides_them_and_one_over_none_is_welcome(
    tmp_path: Path, tree: Tree, index: Index, mounts: Mounts, mounted: Any
) -> None:
    list_as(index, b"folder", is_mount=False)
    with mounted(tmp_path / "root/folder", "-t", "tmpfs", "none"):
        assert misplaced(mounts, index, b"folder") is None
    know(index, tree, b"folder/sub/file")
    with mounted(tmp_path / "root/folder", "-t", "tmpfs", "none"):
        found = misplaced(mounts, index, b"folder/sub")
        assert found is not None
        assert (found[0], found[1].partition(":")[0]) == (b"folder", "mounted over")


def test_another_filesystem_than_before_is_told(tmp_path: Path, index: Index, mounts: Mounts, mounted: Any) -> None:
    list_as(index, b"folder", is_mount=True)
    with mounted(tmp_path / "root/folder", "-t", "tmpfs", "first"):
        assert misplaced(mounts, index, b"folder") is None
    with mounted(tmp_path / "root/folder", "-t", "tmpfs", "second"):
        found = misplaced(mounts, index, b"folder")
        assert found is not None
        assert found[1].startswith("replaced")
