"""When each directory was last listed completely, and when it is to be listed again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

_TABLE = """
CREATE TABLE IF NOT EXISTS directories (
    path BLOB PRIMARY KEY, due_at REAL NOT NULL, listed_at REAL NOT NULL, is_mount INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS directories_due ON directories (due_at);
"""


@dataclass(frozen=True, slots=True)
class KnownDirectory:
    """``listed_at``: start of the last complete listing (0: never). ``is_mount``: another filesystem began here."""

    path: bytes
    due_at: float
    listed_at: float
    is_mount: bool


class Directories:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(_TABLE)

    def get(self, path: bytes) -> KnownDirectory | None:
        row = self._database.execute("SELECT * FROM directories WHERE path = ?", (path,)).fetchone()
        return KnownDirectory(row[0], row[1], row[2], bool(row[3])) if row else None

    def next_due(self, now: float) -> KnownDirectory | None:
        """The directory that waits longest, if any is due."""
        row = self._database.execute(
            "SELECT * FROM directories WHERE due_at <= ? ORDER BY due_at, path LIMIT 1", (now,)
        ).fetchone()
        return KnownDirectory(row[0], row[1], row[2], bool(row[3])) if row else None

    def due_count(self, now: float) -> int:
        query = "SELECT count(*) FROM directories WHERE due_at <= ?"
        return int(self._database.execute(query, (now,)).fetchone()[0])

    def first_due_at(self) -> float | None:
        row = self._database.execute("SELECT min(due_at) FROM directories").fetchone()
        return None if row[0] is None else float(row[0])

    def oldest_listing(self) -> float | None:
        row = self._database.execute("SELECT min(listed_at) FROM directories").fetchone()
        return None if row[0] is None else float(row[0])

    def make_due(self, path: bytes, at: float) -> None:
        """List this directory at ``at`` or earlier; one that is not known yet becomes known."""
        self._database.execute(
            "INSERT INTO directories VALUES (?, ?, 0, 0) ON CONFLICT (path) DO UPDATE SET due_at = min(due_at, ?)",
            (path, at, at),
        )

    def make_below_due(self, path: bytes, at: float) -> None:
        """Every known directory below ``path``: their paths lie between ``path/`` and ``path0`` ('0' follows '/')."""
        self._database.execute(
            "UPDATE directories SET due_at = min(due_at, ?) WHERE path > ? AND path < ?", (at, path + b"/", path + b"0")
        )

    def make_all_due(self, at: float) -> None:
        self._database.execute("UPDATE directories SET due_at = min(due_at, ?)", (at,))

    def forget_future(self, now: float) -> None:
        self._database.execute("UPDATE directories SET listed_at = 0 WHERE listed_at > ?", (now,))

    def begin(self, path: bytes, next_at: float) -> None:
        """A listing begins: unless an event comes meanwhile, the next one is due at ``next_at``."""
        self._database.execute("UPDATE directories SET due_at = ? WHERE path = ?", (next_at, path))

    def listed(self, path: bytes, *, at: float, is_mount: bool) -> None:
        """The listing that began at ``at`` was complete."""
        self._database.execute(
            "UPDATE directories SET listed_at = ?, is_mount = ? WHERE path = ?", (at, is_mount, path)
        )

    def remove(self, path: bytes) -> None:
        self._database.execute("DELETE FROM directories WHERE path = ?", (path,))

    def clear(self) -> None:
        self._database.execute("DELETE FROM directories")
