"""The states of paths: file_versions, the newest of each path, exceptions, checkpoints. Written by upload only.

Every function takes a transaction first and works on a whole batch in one statement. Rows are written in key order,
so that two batches that meet in the same rows wait for each other instead of deadlocking.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.counters import Tally
from headwater.rules.identity import display
from headwater.schemas.records import ChangeKind, FileChange, FileType, Guarantee, RequestReason, SyncRequest


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What a batch must know of a source."""

    source: str
    root: bytes
    dataset: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FileState:
    """One row of file_versions: one state of one path."""

    change: FileChange
    path: bytes
    kind: ChangeKind
    renamed_to: bytes | None = None

    @property
    def content_bytes(self) -> int | None:
        """Bytes that the path holds in this state; None where it is gone."""
        if self.kind is ChangeKind.deleted:
            return None
        return self.change.size if self.change.file_type is FileType.regular else 0

    @property
    def is_weak(self) -> bool:
        """Is the path there, read where nothing proved that nobody wrote?"""
        return self.kind is not ChangeKind.deleted and self.change.guarantee is Guarantee.weak


@dataclass(frozen=True, slots=True)
class WaitingPath:
    """A path whose newest state has a content, and that state's clock."""

    source: str
    path: bytes
    epoch: int
    seq: int
    hash: bytes

    def request(self, reason: RequestReason) -> SyncRequest:
        """Asks its source to send it again."""
        return SyncRequest(
            source=self.source,
            path=self.path,
            display=display(self.path),
            epoch=self.epoch,
            seq=self.seq,
            reason=reason,
            detail=f"no stored object has content {self.hash.hex()}",
        )


@dataclass(frozen=True, slots=True)
class PathException:
    """A path that cannot be carried (``active``) or can again, since the clock."""

    source: str
    path: bytes
    epoch: int
    seq: int
    reason: str
    active: bool


def states_of(change: FileChange) -> tuple[FileState, ...]:
    """The rows of one change: a rename is two with one clock, what appeared and what went."""
    here = FileState(change, change.path, change.kind)
    if change.kind is ChangeKind.renamed and change.from_path is not None:
        return here, FileState(change, change.from_path, ChangeKind.deleted, renamed_to=change.path)
    return (here,)


def sources(transaction: Transaction, names: Iterable[str]) -> dict[str, SourceRow]:
    rows = transaction.execute(
        "SELECT source, root, dataset, epoch FROM sources WHERE source = ANY(%s)", [sorted(set(names))]
    )
    return {row[0]: SourceRow(*row) for row in rows}


def add_states(transaction: Transaction, states: Sequence[FileState]) -> dict[str, int]:
    """Append the states that are not there yet; returns how many were new, by source."""
    if not states:
        return {}
    rows = transaction.execute(
        """
        WITH inserted AS (
            INSERT INTO file_versions (source, path, epoch, seq, kind, file_type, hash, size, mtime_ns, mode, uid, gid,
                                       link_target, from_path, renamed_to, guarantee)
            SELECT * FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::text[], %s::text[],
                                 %s::bytea[], %s::bigint[], %s::bigint[], %s::int[], %s::bigint[], %s::bigint[],
                                 %s::bytea[], %s::bytea[], %s::bytea[], %s::text[]) AS given (source, path, epoch, seq)
            ORDER BY source, path, epoch, seq
            ON CONFLICT DO NOTHING
            RETURNING source
        )
        SELECT source, count(*) FROM inserted GROUP BY source
        """,
        _columns(_row(state) for state in states),
    )
    return dict(rows.fetchall())


def _row(state: FileState) -> tuple[object, ...]:
    change = state.change
    clock = (change.source, state.path, change.epoch, change.seq, state.kind.value, change.file_type.value)
    if state.kind is ChangeKind.deleted:
        return (*clock, None, 0, 0, 0, 0, 0, None, None, state.renamed_to, change.guarantee.value)
    return (
        *clock,
        change.hash,
        change.size,
        change.mtime_ns,
        change.mode,
        change.uid,
        change.gid,
        change.link_target,
        change.from_path,
        None,
        change.guarantee.value,
    )


def move_heads(transaction: Transaction, states: Sequence[FileState]) -> Tally:
    """Make each path's newest state its head, where it is newer than the head; returns what the counts gained."""
    if not states:
        return Tally()
    rows = transaction.execute(
        """
        WITH given AS (
            SELECT DISTINCT ON (source, path) *
            FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[])
                AS given (source, path, epoch, seq, content_bytes, weak)
            ORDER BY source, path, epoch DESC, seq DESC
        ), moved AS (
            INSERT INTO paths AS p (source, path, epoch, seq, content_bytes, weak)
            SELECT * FROM given ORDER BY source, path
            ON CONFLICT (source, path) DO UPDATE
                SET epoch = excluded.epoch, seq = excluded.seq, content_bytes = excluded.content_bytes,
                    weak = excluded.weak
                WHERE (excluded.epoch, excluded.seq) > (p.epoch, p.seq)
            RETURNING p.source, old.content_bytes AS before, new.content_bytes AS after,
                old.weak AS weak_before, new.weak AS weak_after
        )
        SELECT source, count(after) - count(before), coalesce(sum(after), 0) - coalesce(sum(before), 0),
            count(*) FILTER (WHERE weak_after) - count(*) FILTER (WHERE weak_before)
        FROM moved GROUP BY source
        """,
        _columns(
            (change.source, state.path, change.epoch, change.seq, state.content_bytes, state.is_weak)
            for state in states
            for change in (state.change,)
        ),
    )
    tally = Tally()
    for source, files, size, weak in rows:
        tally[source, "files"] += files
        tally[source, "bytes"] += int(size)
        tally[source, "weak_files"] += weak
    return tally


def newest(transaction: Transaction, changes: Sequence[FileChange]) -> list[FileChange]:
    """Those of the changes that are the head of their path."""
    if not changes:
        return []
    rows = transaction.execute(
        """
        SELECT number FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[])
            WITH ORDINALITY AS given (source, path, epoch, seq, number)
        JOIN paths USING (source, path, epoch, seq)
        ORDER BY number
        """,
        _columns((change.source, change.path, change.epoch, change.seq) for change in changes),
    )
    return [changes[row[0] - 1] for row in rows]


def waiting_paths(transaction: Transaction, hashes: Iterable[bytes]) -> list[WaitingPath]:
    """Every path whose head has one of these contents."""
    rows = transaction.execute(
        """
        SELECT source, path, epoch, seq, v.hash
        FROM file_versions v JOIN paths USING (source, path, epoch, seq)
        WHERE v.hash = ANY(%s) ORDER BY source, path
        """,
        [sorted(set(hashes))],
    )
    return [WaitingPath(*row) for row in rows]


def note_exceptions(transaction: Transaction, noted: Sequence[PathException]) -> None:
    """Keep the newest word about each path."""
    if not noted:
        return
    transaction.execute(
        """
        INSERT INTO exceptions AS e (source, path, epoch, seq, reason, active)
        SELECT DISTINCT ON (source, path) *
        FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::text[], %s::boolean[])
            AS given (source, path, epoch, seq, reason, active)
        ORDER BY source, path, epoch DESC, seq DESC
        ON CONFLICT (source, path) DO UPDATE
            SET epoch = excluded.epoch, seq = excluded.seq, reason = excluded.reason, active = excluded.active,
                since = now()
            WHERE (excluded.epoch, excluded.seq) > (e.epoch, e.seq)
        """,
        _columns((one.source, one.path, one.epoch, one.seq, one.reason, one.active) for one in noted),
    )


DEAD_LETTERED = "dead-lettered: "
"""How the reason of an exception begins that upload noted itself; a later or redriven state of the path ends it."""


def clear_dead_letters(transaction: Transaction, states: Sequence[FileState]) -> None:
    """A path whose state is recorded now is no longer held up by a dead letter of that clock or an older one."""
    if not states:
        return
    transaction.execute(
        """
        UPDATE exceptions e SET active = false, since = now()
        FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[]) AS given (source, path, epoch, seq)
        WHERE e.active AND starts_with(e.reason, %s) AND e.source = given.source AND e.path = given.path
            AND (e.epoch, e.seq) <= (given.epoch, given.seq)
        """,
        [
            *_columns((state.change.source, state.path, state.change.epoch, state.change.seq) for state in states),
            DEAD_LETTERED,
        ],
    )


def apply_checkpoints(transaction: Transaction, checkpoints: Sequence[tuple[str, int, int, int]]) -> None:
    """(source, partition, epoch, seq): everything up to that clock precedes in that partition, and is recorded."""
    if not checkpoints:
        return
    transaction.execute(
        """
        INSERT INTO checkpoints AS c (source, partition, epoch, seq)
        SELECT DISTINCT ON (source, partition) *
        FROM unnest(%s::text[], %s::int[], %s::bigint[], %s::bigint[]) AS given (source, partition, epoch, seq)
        ORDER BY source, partition, epoch DESC, seq DESC
        ON CONFLICT (source, partition) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq
            WHERE (excluded.epoch, excluded.seq) > (c.epoch, c.seq)
        """,
        _columns(checkpoints),
    )


def count_uncommitted(transaction: Transaction, changes_by_source: dict[str, int]) -> None:
    """Tell the datasets how much a next version would hold. Call it last: the row is shared by all uploaders."""
    if not changes_by_source:
        return
    transaction.execute(
        """
        UPDATE datasets d SET uncommitted = d.uncommitted + added.changes
        FROM (SELECT s.dataset, sum(given.changes) AS changes
              FROM unnest(%s::text[], %s::bigint[]) AS given (source, changes) JOIN sources s USING (source)
              GROUP BY s.dataset) added
        WHERE d.dataset = added.dataset
        """,
        _columns(changes_by_source.items()),
    )


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    """Rows as the arrays that unnest takes."""
    return [list(column) for column in zip(*rows, strict=True)]
