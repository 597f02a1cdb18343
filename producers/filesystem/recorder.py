"""What was found becomes a change: its clock, its new row in the index and its record, in one transaction.

The protocol of one change:
1. the index commits, together, the row's new state, the counter, and the encoded record in the outbox;
2. the outbox produces the record (outbox.py) until Kafka acknowledges it;
3. the acknowledged record leaves the outbox.
A crash before 1 leaves the old row: the next walk finds the change again. A crash between 1 and 3 leaves the record:
it is produced again, with the same clock, and what it reaches twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.read import Content, Reading
from headwater.producers.filesystem.tree import Attributes, Tree
from headwater.rules.identity import display
from headwater.schemas import codec, topics
from headwater.schemas.records import ChangeKind, FileChange, FilePart, FileType, Guarantee

_NOTHING = Attributes(mtime_ns=0, mode=0, uid=0, gid=0)

DAMAGED = "damaged"
"""Class of the exceptions that a look at the path does not end: only a change of the file, or another audit."""


def is_silent(known: KnownFile | None, reading: Reading) -> bool:
    """Other bytes under clocks that did not move: nobody wrote the file in an ordinary way.

    Where the guarantee is weak, clocks may stand still for a writer elsewhere, or behind a mapping: that is a change.
    """
    if known is None or not (known.strong and reading.strong):
        return False
    if reading.content is None or known.hash is None or known.hash == reading.content.hash:
        return False
    return replace(known.signature, device=0) == replace(reading.signature, device=0)


def kind_of(known: KnownFile | None, reading: Reading) -> ChangeKind | None:
    """What a reading means against what was sent before; None: nothing that anybody needs to hear."""
    if known is None:
        return ChangeKind.created
    found = reading.content.hash if reading.content else None
    if (known.file_type, known.hash, known.link_target) != (reading.file_type, found, reading.link_target):
        return ChangeKind.modified
    if reading.candidate.forced:
        return ChangeKind.modified
    return ChangeKind.metadata if known.attributes != reading.attributes else None


class Recorder:
    """Every method works inside a transaction of the index, in the agent's thread."""

    def __init__(self, config: AgentConfig, tree: Tree, index: Index, clock: Callable[[], float]) -> None:
        self._config = config
        self._tree = tree
        self._index = index
        self._clock = clock
        self._changes = topics.fs_changes(config.site).name
        self._parts = topics.fs_parts(config.site).name

    def record(self, reading: Reading) -> None:
        """A whole state of a path was read."""
        path = reading.candidate.path
        known = self._index.files.get(path)
        kind = kind_of(known, reading)
        if is_silent(known, reading):
            self._index.requests.answered(path)
            self.except_path(path, f"{DAMAGED}: it was to be sent again, and its bytes are others without any change")
            return
        if kind is None:
            self._index.files.seen(path, reading.signature)
        else:
            self._send(reading, kind, known)
        self._index.requests.answered(path)
        self.clear_path(path)

    def _send(self, reading: Reading, kind: ChangeKind, known: KnownFile | None) -> None:
        path, content, attributes = reading.candidate.path, reading.content, reading.attributes
        seq = self._index.next_seq()
        same_content = known is not None and content is not None and known.hash == content.hash
        before = None if same_content else self._renamed_from(reading)
        if before is not None:
            kind = ChangeKind.renamed
            self._index.files.remove(before)
            self._index.requests.answered(before.path)
        if content is not None and kind is not ChangeKind.metadata:
            self._emit_parts(path, seq, reading.signature.size, content)
        self._emit(
            FileChange(
                source=self._config.source,
                path=path,
                display=display(path),
                epoch=self._index.epoch,
                seq=seq,
                kind=kind,
                file_type=reading.file_type,
                size=reading.signature.size if content is not None else 0,
                mtime_ns=attributes.mtime_ns,
                mode=attributes.mode,
                uid=attributes.uid,
                gid=attributes.gid,
                hash=content.hash if content is not None else None,
                parts=content.part_count if content is not None else 0,
                link_target=reading.link_target,
                from_path=before.path if before is not None else None,
                guarantee=Guarantee.strong if reading.strong else Guarantee.weak,
            )
        )
        self._index.files.put(
            KnownFile(
                path=path,
                file_type=reading.file_type,
                signature=reading.signature,
                attributes=attributes,
                hash=content.hash if content is not None else None,
                parts=content.part_count if content is not None else 0,
                link_target=reading.link_target,
                strong=reading.strong,
                seq=seq,
                sends=known.sends + 1 if known is not None and same_content else 1,
            ),
            known,
            sent_at=self._clock(),
        )

    def _renamed_from(self, reading: Reading) -> KnownFile | None:
        """The path that had this inode and these bytes and is gone now: the file was renamed.

        No event is needed for it, so renames that happened while the agent was away, or whose events were lost, are
        found as well; and a move of a directory is one of each of its files.
        """
        if reading.content is None:
            return None
        for known in self._index.files.with_inode(reading.signature):
            if (
                known.path != reading.candidate.path
                and known.hash == reading.content.hash
                and self._tree.is_gone(known.path)
            ):
                return known
        return None

    def _emit_parts(self, path: bytes, seq: int, size: int, content: Content) -> None:
        for number, part in enumerate(content.parts or ()):
            self._emit(
                FilePart(
                    source=self._config.source,
                    path=path,
                    display=display(path),
                    epoch=self._index.epoch,
                    seq=seq,
                    hash=content.hash,
                    size=size,
                    index=number,
                    count=content.part_count,
                    offset=part.offset,
                    length=part.length,
                    part_hash=part.hash,
                )
            )

    def delete(self, known: KnownFile) -> None:
        """A path is gone for good: a tombstone."""
        self._index.files.remove(known)
        self._index.requests.answered(known.path)
        self._emit(self._bare(known.path, ChangeKind.deleted, known.file_type))

    def except_path(self, path: bytes, reason: str, *, retry_seconds: float | None = None) -> None:
        """A path cannot be carried now: versions name it. ``reason`` begins with its class (busy, unreadable, …)."""
        retry_at = self._clock() + (retry_seconds or self._config.retry_seconds)
        before = self._index.exceptions.reason(path)
        if before is not None and _class_of(before) == _class_of(reason):
            self._index.exceptions.postpone(path, retry_at)
            return
        self._index.exceptions.put(path, reason, retry_at)
        self._emit(replace(self._bare(path, ChangeKind.excepted, FileType.other), reason=reason))

    def found_as_sent(self, path: bytes) -> None:
        """A look at the path found nothing new. That says nothing of its bytes."""
        if not self._is_damaged(path):
            self.clear_path(path)

    def mended(self, path: bytes) -> None:
        """Its bytes are as they were sent."""
        if self._is_damaged(path):
            self.clear_path(path)

    def _is_damaged(self, path: bytes) -> bool:
        return _class_of(self._index.exceptions.reason(path) or "") == DAMAGED

    def clear_path(self, path: bytes) -> None:
        """A path can be carried again, or is gone."""
        if self._index.exceptions.reason(path) is None:
            return
        self._index.exceptions.remove(path)
        self._emit(self._bare(path, ChangeKind.cleared, FileType.other))

    def _bare(self, path: bytes, kind: ChangeKind, file_type: FileType) -> FileChange:
        return FileChange(
            source=self._config.source,
            path=path,
            display=display(path),
            epoch=self._index.epoch,
            seq=self._index.next_seq(),
            kind=kind,
            file_type=file_type,
        )

    def _emit(self, record: FileChange | FilePart) -> None:
        topic = self._changes if isinstance(record, FileChange) else self._parts
        event_time_us = int(self._clock() * 1_000_000)
        self._index.outbox.add(record.seq, topic, record.key(), codec.encode(record), event_time_us)


def _class_of(reason: str) -> str:
    return reason.partition(":")[0]
