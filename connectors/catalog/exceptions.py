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


def excepted(transaction: Transaction, source: str, limit: int) -> list[ExceptedPath]:
    """At most ``limit`` of them, the oldest first."""
    rows = transaction.execute(
        "SELECT path, reason, since FROM exceptions WHERE source = %s AND active ORDER BY since, path LIMIT %s",
        [source, limit],
    )
    return [ExceptedPath(bytes(path), reason, since) for path, reason, since in rows]
