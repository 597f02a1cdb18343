"""What a record of fs.changes asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.connectors.catalog.files import PathException, SourceRow
from headwater.observe import logs, metrics
from headwater.rules.errors import BadRecord
from headwater.schemas.records import ChangeKind, FileChange
from headwater.streams.runtime.processor import Input
from headwater.streams.upload.records import check_path, of_type

log = logs.logger()


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the batch and where it was read."""

    cause: Input
    record: FileChange

    @property
    def partition(self) -> int:
        return self.cause.partition

    @property
    def whole(self) -> bytes | None:
        """The content that this lane sends for it, if any."""
        return self.record.hash if self.record.parts == 0 else None

    @property
    def is_checkpoint(self) -> bool:
        return self.record.kind is ChangeKind.checkpoint

    @property
    def is_exception(self) -> bool:
        return self.record.kind in (ChangeKind.excepted, ChangeKind.cleared)

    @property
    def is_state(self) -> bool:
        return not self.is_checkpoint and not self.is_exception


def checked(one: Input) -> Change:
    """The change that a record describes. Raises BadRecord."""
    record = of_type(one, FileChange)
    if record.kind is ChangeKind.checkpoint:
        return Change(one, record)
    check_path(record.path)
    if record.kind is ChangeKind.renamed:
        check_path(record.from_path or b"")
    if record.kind is ChangeKind.unknown:
        raise BadRecord(
            "its kind of change is not known to this version.",
            asked=f"Apply a change of {record.display} of source {record.source}.",
            kept="Nothing was written for it.",
            advice="Upgrade headwater on this host, then: headwater dead redrive.",
        )
    return Change(one, record)


def whole_contents(changes: Iterable[Change]) -> set[bytes]:
    """The contents that this lane sends for the changes."""
    return {change.whole for change in changes if change.whole is not None}


def of_present_owner(record: FileChange, sources: Mapping[str, SourceRow]) -> bool:
    """Whether the owner of the source wrote it. Raises BadRecord for a source that the catalog does not know."""
    row = sources.get(record.source)
    if row is None:
        raise BadRecord(
            f"the catalog knows no source {record.source!r}.",
            asked=f"Apply a change of {record.display}.",
            kept="Nothing was written for it.",
            advice="Was the catalog replaced? Start the source's agent (it registers the source), then redrive.",
        )
    if record.epoch < row.epoch:
        metrics.UPLOAD_STALE.labels("files").inc()
        log.warning("change.stale", source=record.source, path=record.display, epoch=record.epoch, now=row.epoch)
        return False
    return True


def exception_of(change: Change) -> PathException:
    record = change.record
    active = record.kind is ChangeKind.excepted
    return PathException(record.source, record.path, record.epoch, record.seq, record.reason or "", active)


def checkpoint_of(change: Change) -> tuple[str, int, int, int]:
    """(source, partition, epoch, seq)."""
    return change.record.source, change.partition, change.record.epoch, change.record.seq
