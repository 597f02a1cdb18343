"""What a reading means, and what of it reaches the index and the outbox together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.read import Content, Part, Reading
from headwater.producers.filesystem.recorder import Recorder, kind_of
from headwater.producers.filesystem.settle import Candidate
from headwater.producers.filesystem.tree import Attributes, Signature, Tree
from headwater.rules.identity import content_hash
from headwater.schemas import codec
from headwater.schemas.records import ChangeKind, FileChange, FilePart, FileType, Record

ONE, TWO = content_hash(b"one"), content_hash(b"two")
READING = Reading(
    candidate=Candidate(b"d/a", since=0.0),
    file_type=FileType.regular,
    signature=Signature(size=3, mtime_ns=5, ctime_ns=6, inode=7, device=8),
    attributes=Attributes(mtime_ns=5, mode=0o644, uid=1, gid=2),
    content=Content(ONE, 0, ()),
    link_target=None,
    strong=True,
)
LATER = replace(READING.signature, ctime_ns=READING.signature.ctime_ns + 1)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "state", "media")
    yield index
    index.close()


def recorder_on(index: Index, folder: Path) -> Recorder:
    config = AgentConfig("media", "here", "films", folder / "root", folder / "state")
    return Recorder(config, Tree(folder / "root"), index, lambda: 1_000.0)


@pytest.fixture
def recorder(tmp_path: Path, index: Index) -> Recorder:
    (tmp_path / "root").mkdir()
    return recorder_on(index, tmp_path)


def sent(index: Index) -> list[Record]:
    return [codec.decode(waiting.value) for waiting in index.outbox.after(0, 1_000)]


def record(recorder: Recorder, index: Index, *readings: Reading) -> list[Record]:
    with index.transaction():
        for reading in readings:
            recorder.record(reading)
    return sent(index)


@pytest.mark.parametrize(
    ("again", "kind"),
    [
        (READING, None),
        (replace(READING, content=Content(TWO, 0, ()), signature=LATER), ChangeKind.modified),
        (replace(READING, content=Content(TWO, 0, ()), strong=False), ChangeKind.modified),
        (replace(READING, attributes=replace(READING.attributes, mode=0o600)), ChangeKind.metadata),
        (replace(READING, attributes=replace(READING.attributes, mtime_ns=9)), ChangeKind.metadata),
        (replace(READING, signature=replace(READING.signature, ctime_ns=99)), None),
        (replace(READING, candidate=replace(READING.candidate, forced=True)), ChangeKind.modified),
        (
            replace(READING, file_type=FileType.symlink, content=None, link_target=b"x"),
            ChangeKind.modified,
        ),
    ],
)
def test_a_second_reading_means_what_differs(
    recorder: Recorder, index: Index, again: Reading, kind: ChangeKind | None
) -> None:
    record(recorder, index, READING)
    assert kind_of(None, again) is ChangeKind.created
    assert kind_of(index.files.get(b"d/a"), again) is kind
    changes = record(recorder, index, again)
    assert [change.kind for change in changes if isinstance(change, FileChange)] == [
        ChangeKind.created,
        *([kind] if kind else []),
    ]
    assert index.files.get(b"d/a") is not None
    assert index.files.get(b"d/a").signature == again.signature  # type: ignore[union-attr]


def test_other_bytes_under_the_same_clocks_are_named_and_the_known_state_stays(
    recorder: Recorder, index: Index
) -> None:
    record(recorder, index, READING)
    changes = record(recorder, index, replace(READING, content=Content(TWO, 0, ())))
    assert [change.kind for change in changes if isinstance(change, FileChange)] == [
        ChangeKind.created,
        ChangeKind.excepted,
    ]
    known = index.files.get(b"d/a")
    assert known is not None
    assert known.hash == READING.content.hash  # type: ignore[union-attr]


def test_row_counter_and_record_are_committed_together_or_not_at_all(recorder: Recorder, index: Index) -> None:
    def die() -> None:
        with index.transaction():
            recorder.record(READING)
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        die()
    assert index.files.get(b"d/a") is None
    assert sent(index) == []


def test_a_large_file_is_one_change_and_its_parts_under_one_clock(recorder: Recorder, index: Index) -> None:
    parts = tuple(Part(offset, 10, content_hash(b"%d" % offset)) for offset in (0, 10))
    large = replace(READING, content=Content(ONE, 2, parts))
    *found, change = record(recorder, index, large)
    assert [(part.index, part.offset, part.count, part.seq) for part in found if isinstance(part, FilePart)] == [
        (0, 0, 2, 1),
        (1, 10, 2, 1),
    ]
    assert isinstance(change, FileChange)
    assert (change.parts, change.seq) == (2, 1)
    # Its mode alone changes: the parts are not said again.
    chmod = replace(large, attributes=replace(READING.attributes, mode=0))
    assert len(record(recorder, index, chmod)) == 4


def test_a_rename_moves_the_row(recorder: Recorder, index: Index) -> None:
    record(recorder, index, READING)
    moved = replace(READING, candidate=Candidate(b"e", since=0.0))
    *_, change = record(recorder, index, moved)
    assert isinstance(change, FileChange)
    assert (change.kind, change.path, change.from_path) == (ChangeKind.renamed, b"e", b"d/a")
    assert index.files.get(b"d/a") is None
    assert (index.files.count, index.files.pending_count) == (1, 1)


def test_another_inode_with_the_same_bytes_is_a_copy(recorder: Recorder, index: Index) -> None:
    record(recorder, index, READING)
    copy = replace(READING, candidate=Candidate(b"e", since=0.0), signature=replace(READING.signature, inode=70))
    *_, change = record(recorder, index, copy)
    assert isinstance(change, FileChange)
    assert change.kind is ChangeKind.created


def test_an_exception_is_said_once_and_cleared_once(recorder: Recorder, index: Index) -> None:
    with index.transaction():
        recorder.except_path(b"x", "busy: it keeps changing")
        recorder.except_path(b"x", "busy: a process has it open for writing")
        recorder.except_path(b"x", "unreadable: Permission denied")
        recorder.clear_path(b"x")
        recorder.clear_path(b"x")
    changes = [change for change in sent(index) if isinstance(change, FileChange)]
    assert [(change.kind, change.reason) for change in changes] == [
        (ChangeKind.excepted, "busy: it keeps changing"),
        (ChangeKind.excepted, "unreadable: Permission denied"),
        (ChangeKind.cleared, None),
    ]
    assert [change.seq for change in changes] == [1, 2, 3]


def test_counts_follow_the_rows_and_survive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    index = Index(tmp_path / "state", "media")
    recorder = recorder_on(index, tmp_path)
    other = replace(READING, candidate=Candidate(b"f", since=0.0), signature=replace(READING.signature, inode=70))
    record(recorder, index, READING, other)
    with index.transaction():
        index.files.mark_verified([(b"d/a", 1), (b"f", 99)])
        index.files.mark_verified([(b"d/a", 1)])
    assert (index.files.count, index.files.pending_count) == (2, 1)
    record(recorder, index, replace(READING, content=Content(TWO, 0, ()), signature=LATER))
    known = index.files.get(b"f")
    assert known is not None
    with index.transaction():
        recorder.delete(known)
    index.close()
    index = Index(tmp_path / "state", "media")
    try:
        assert (index.files.count, index.files.pending_count) == (1, 1)
        assert (index.outbox.count, index.seq) == (4, 4)
    finally:
        index.close()
