"""One read: the hash of exactly the bytes, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3

from headwater.producers.filesystem import read
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.read import Changed, Content, Reading, Unsettled, read_content, read_path
from headwater.producers.filesystem.settle import Candidate
from headwater.producers.filesystem.tree import Tree
from headwater.rules.chunking import MIB, PartSizes


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    (tmp_path / "root").mkdir()
    return AgentConfig("media", "here", "films", tmp_path / "root", tmp_path / "state")


@pytest.mark.parametrize("size", [0, 1, 4 * MIB - 1, 4 * MIB, 9 * MIB + 5])
def test_content_of_any_size_is_hashed_whole(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    with opened(tmp_path / "file") as descriptor:
        assert read_content(descriptor, size) == Content(blake3(content).digest(), 0, ())
        assert read_content(descriptor, size + 1) is None
        if size:
            assert read_content(descriptor, size - 1) is None


@pytest.mark.parametrize(
    "sizes",
    [PartSizes(5 * MIB, 8 * MIB, 16 * MIB), PartSizes(9 * MIB, 9 * MIB, 9 * MIB)],
    ids=["by content", "fixed"],
)
def test_parts_cover_the_content(tmp_path: Path, sizes: PartSizes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "part_sizes", lambda _: sizes)
    content = os.urandom(40 * MIB + 3)
    (tmp_path / "file").write_bytes(content)
    with opened(tmp_path / "file") as descriptor:
        found = read_content(descriptor, len(content))
        assert read_content(descriptor, len(content) + 1) is None
        assert read_content(descriptor, len(content) - 1) is None
    assert found is not None
    assert found.parts is not None
    assert found.hash == blake3(content).digest()
    assert found.part_count == len(found.parts)
    offset = 0
    for part in found.parts:
        assert part.offset == offset
        assert part.hash == blake3(content[offset : offset + part.length]).digest()
        offset += part.length
    assert offset == len(content)


def test_what_is_not_quiet_yet_waits_for_the_settle_time(config: AgentConfig) -> None:
    path = config.root / "file"
    path.write_bytes(b"content")
    changed = path.stat().st_ctime_ns / 1e9
    tree, candidate = Tree(config.root), Candidate(b"file", since=changed)
    early = read_path(tree, candidate, {}, config, lambda: changed + 1.0)
    assert isinstance(early, Unsettled)
    assert early.due_at == pytest.approx(changed + config.settle_seconds)
    late = read_path(tree, candidate, {}, config, lambda: changed + config.settle_seconds)
    assert isinstance(late, Reading)
    assert late.content == Content(blake3(b"content").digest(), 0, ())


def test_a_change_during_the_read_is_noticed(config: AgentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is changed by a real writer between the first and the last look."""
    path = config.root / "file"
    path.write_bytes(b"before")
    now = path.stat().st_ctime_ns / 1e9 + 60
    tree, candidate = Tree(config.root), Candidate(b"file", since=0.0)
    for change in (
        lambda: path.write_bytes(b"after!"),
        lambda: os.replace(_other(config), path),
        lambda: path.unlink(),
    ):
        path.write_bytes(b"before")

        def changing(descriptor: int, size: int, change: object = change) -> Content | None:
            found = read_content(descriptor, size)
            change()  # type: ignore[operator]
            return found

        with monkeypatch.context() as patched:
            patched.setattr(read, "read_content", changing)
            outcome = read_path(tree, candidate, {}, config, lambda: now + 3600)
        assert isinstance(outcome, Unsettled)


def _other(config: AgentConfig) -> Path:
    other = config.root / "other"
    other.write_bytes(b"before")
    return other


def test_known_content_is_taken_over_only_for_the_same_signature(config: AgentConfig) -> None:
    path = config.root / "file"
    path.write_bytes(b"content")
    later = path.stat().st_ctime_ns / 1e9 + 60
    tree, candidate = Tree(config.root), Candidate(b"file", since=0.0)
    known = Content(b"\1" * 32, 0, None)
    signature = tree.stat(b"file").signature
    same = read_path(tree, candidate, {signature: known}, config, lambda: later)
    other = read_path(tree, candidate, {replace(signature, ctime_ns=1): known}, config, lambda: later)
    assert isinstance(same, Reading)
    assert isinstance(other, Reading)
    assert same.content == known
    assert other.content == Content(blake3(b"content").digest(), 0, ())


def test_a_path_that_is_gone_or_is_no_file_wants_a_fresh_look(config: AgentConfig) -> None:
    tree = Tree(config.root)
    (config.root / "folder").mkdir()
    os.mkfifo(config.root / "fifo")
    for path in (b"gone", b"gone/below", b"folder", b"fifo"):
        outcome = read_path(tree, Candidate(path, since=0.0), {}, config, lambda: 1e10)
        assert isinstance(outcome, Changed)


@pytest.mark.parametrize("data_at", [0, 77 * MIB + 5, 160 * MIB - 3])
def test_holes_are_not_read_and_the_hashes_and_cuts_are_those_of_the_bytes(tmp_path: Path, data_at: int) -> None:
    """Of 160 MiB, where a film's preallocated file may have 10 GiB and more."""
    size, data = 160 * MIB, os.urandom(MIB)[: 160 * MIB - data_at]
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(size)
        file.seek(data_at)
        file.write(data)
    with opened(tmp_path / "sparse") as descriptor:
        before = _bytes_read()
        found = read_content(descriptor, size)
        assert _bytes_read() - before < 17 * MIB  # one window
    assert found is not None
    assert found.parts is not None
    dense = bytearray(size)
    dense[data_at : data_at + len(data)] = data
    assert found.hash == blake3(dense, max_threads=blake3.AUTO).digest()
    (tmp_path / "dense").write_bytes(dense)
    with opened(tmp_path / "dense") as descriptor:
        assert read_content(descriptor, size) == found


def test_a_sparse_file_that_is_cut_short_is_no_content(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(100 * MIB)
    with opened(tmp_path / "sparse") as descriptor:
        assert read_content(descriptor, 101 * MIB) is None
        assert read_content(descriptor, 99 * MIB) is None


def _bytes_read() -> int:
    """By this process, so far: proc_pid_io(5), rchar."""
    return int(Path("/proc/self/io").read_text().split()[1])
