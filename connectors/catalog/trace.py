"""What the catalog knows of one file's states: found by path, by clock or by content, with how far each came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from headwater.connectors.catalog.client import Transaction


@dataclass(frozen=True, slots=True)
class TracedState:
    """One row of file_versions, with its source's site and dataset. ``newest``: no later state of the path is known."""

    source: str
    path: bytes
    epoch: int
    seq: int
    kind: str
    file_type: str
    hash: bytes | None
    size: int
    mtime_ns: int
    from_path: bytes | None
    renamed_to: bytes | None
    recorded_at: datetime
    site: str
    dataset: str
    newest: bool
    guarantee: str


@dataclass(frozen=True, slots=True)
class TracedObject:
    """One generation of a content; ``changed_at`` is when it came to its state; of ``parts``, S3 has ``parts_sent``."""

    generation: int
    state: str
    source: str
    parts: int
    parts_sent: int
    claim_topic: str
    claim_partition: int
    detail: str
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class InVersions:
    """The first version that holds a state, and the last one; ``last`` None: the newest version still does."""

    dataset: str
    first: int
    change: str
    commit_id: str | None
    published_at: datetime | None
    last: int | None


@dataclass(frozen=True, slots=True)
class TracedException:
    epoch: int
    seq: int
    reason: str
    active: bool
    since: datetime


_STATE = (
    "SELECT v.source, v.path, v.epoch, v.seq, v.kind, v.file_type, v.hash, v.size, v.mtime_ns, v.from_path, "
    "v.renamed_to, v.recorded_at, s.site, s.dataset, (p.epoch, p.seq) = (v.epoch, v.seq) AS newest, "
    "v.guarantee "
    "FROM file_versions v JOIN sources s USING (source) JOIN paths p USING (source, path) "
)
_NEWEST_FIRST = " ORDER BY v.recorded_at DESC, v.epoch DESC, v.seq DESC LIMIT %s"


def states_of_path(transaction: Transaction, source: str, path: bytes, limit: int) -> list[TracedState]:
    """The newest states of a path, newest first."""
    return _states(
        transaction,
        "WHERE v.source = %s AND v.path = %s ORDER BY v.epoch DESC, v.seq DESC LIMIT %s",
        [source, path, limit],
    )


def states_at_clock(transaction: Transaction, epoch: int, seq: int, limit: int) -> list[TracedState]:
    """The states with this clock: two of a rename, and one or two of every source that has come so far."""
    return _states(transaction, "WHERE v.epoch = %s AND v.seq = %s" + _NEWEST_FIRST, [epoch, seq, limit])


def states_of_content(transaction: Transaction, content: bytes, limit: int) -> list[TracedState]:
    """The states of any path with this hash, newest first."""
    return _states(transaction, "WHERE v.hash = %s" + _NEWEST_FIRST, [content, limit])


def _states(transaction: Transaction, which: str, values: Sequence[object]) -> list[TracedState]:
    with transaction.cursor(row_factory=class_row(TracedState)) as cursor:
        return cursor.execute((_STATE + which).encode(), values).fetchall()


def contents_between(transaction: Transaction, low: bytes, high: bytes, limit: int) -> list[bytes]:
    """The hashes of recorded states from ``low`` to ``high``."""
    rows = transaction.execute(
        "SELECT DISTINCT hash FROM file_versions WHERE hash IS NOT NULL AND hash BETWEEN %s AND %s LIMIT %s",
        [low, high, limit],
    )
    return [bytes(content) for (content,) in rows]


def objects_of(transaction: Transaction, content: bytes) -> list[TracedObject]:
    """Every generation of a content, the first one first."""
    with transaction.cursor(row_factory=class_row(TracedObject)) as cursor:
        return cursor.execute(
            "SELECT generation, state, source, parts, (SELECT count(etag) FROM object_parts p WHERE p.hash = o.hash "
            "AND p.generation = o.generation) AS parts_sent, claim_topic, claim_partition, detail, changed_at "
            "FROM objects o WHERE hash = %s ORDER BY generation",
            [content],
        ).fetchall()


def versions_of(transaction: Transaction, state: TracedState) -> InVersions | None:
    """Which versions of its dataset hold the state; None where none does."""
    with transaction.cursor(row_factory=class_row(InVersions)) as cursor:
        return cursor.execute(
            "SELECT c.dataset, c.version AS first, c.change, v.commit_id, v.published_at, "
            "(SELECT min(n.version) - 1 FROM version_changes n WHERE n.dataset = c.dataset AND n.source = c.source "
            "AND n.path = c.path AND n.version > c.version) AS last "
            "FROM version_changes c JOIN versions v USING (dataset, version) "
            "WHERE c.dataset = %s AND c.source = %s AND c.path = %s AND (c.epoch, c.seq) = (%s, %s) "
            "ORDER BY c.version LIMIT 1",
            [state.dataset, state.source, state.path, state.epoch, state.seq],
        ).fetchone()


def exception_of(transaction: Transaction, source: str, path: bytes) -> TracedException | None:
    """The newest word about whether the path can be carried."""
    with transaction.cursor(row_factory=class_row(TracedException)) as cursor:
        return cursor.execute(
            "SELECT epoch, seq, reason, active, since FROM exceptions WHERE source = %s AND path = %s", [source, path]
        ).fetchone()
