"""The paths of a source that cannot be carried now, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.catalog.client import Transaction


@dataclass(frozen=True, slots=True)
class ExceptedPath:
    path: bytes
    reason: str
    since: datetime


def note_unreadable(transaction: Transaction, source: str, path: bytes, partition: int, reason: str) -> None:
    """Name a path of which a record cannot be read, and so neither its clock. Nothing for an unknown source.

    The record came after what its partition is complete to, and after the states of its path that are known: the
    exception gets the clock that follows both. So no cut is silent about it that could promise it, and the state that
    was lost, or any later one, ends it when it comes.
    """
    transaction.execute(
        """
        INSERT INTO exceptions AS e (source, path, epoch, seq, reason, active)
        SELECT s.source, given.path, s.epoch, 1 + greatest(c.seq, p.seq, 0), %(reason)s, true
        FROM sources s
        CROSS JOIN (SELECT %(path)s::bytea AS path) given
        LEFT JOIN checkpoints c ON c.source = s.source AND c.epoch = s.epoch AND c.partition = %(partition)s
        LEFT JOIN paths p ON p.source = s.source AND p.path = given.path AND p.epoch = s.epoch
        WHERE s.source = %(source)s
        ON CONFLICT (source, path) DO UPDATE
            SET epoch = excluded.epoch, seq = excluded.seq, reason = excluded.reason, active = true, since = now()
            WHERE (excluded.epoch, excluded.seq) > (e.epoch, e.seq)
        """,
        {"source": source, "path": path, "partition": partition, "reason": reason},
    )


def excepted(transaction: Transaction, source: str, limit: int) -> list[ExceptedPath]:
    """At most ``limit`` of them, the oldest first."""
    rows = transaction.execute(
        "SELECT path, reason, since FROM exceptions WHERE source = %s AND active ORDER BY since, path LIMIT %s",
        [source, limit],
    )
    return [ExceptedPath(bytes(path), reason, since) for path, reason, since in rows]
