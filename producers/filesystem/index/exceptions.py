"""Paths that cannot be carried now, why, and when each is looked at again."""

from __future__ import annotations

import sqlite3

_TABLE = """
CREATE TABLE IF NOT EXISTS exceptions (
    path BLOB PRIMARY KEY, reason TEXT NOT NULL, retry_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exceptions_retry ON exceptions (retry_at);
"""


class Exceptions:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(_TABLE)
        self.count = int(database.execute("SELECT count(*) FROM exceptions").fetchone()[0])

    def reason(self, path: bytes) -> str | None:
        if not self.count:
            return None  # nearly always: every recorded path asks
        row = self._database.execute("SELECT reason FROM exceptions WHERE path = ?", (path,)).fetchone()
        return str(row[0]) if row else None

    def put(self, path: bytes, reason: str, retry_at: float) -> None:
        self.count += self.reason(path) is None
        self._database.execute("INSERT OR REPLACE INTO exceptions VALUES (?, ?, ?)", (path, reason, retry_at))

    def remove(self, path: bytes) -> None:
        self.count -= self._database.execute("DELETE FROM exceptions WHERE path = ?", (path,)).rowcount

    def due(self, now: float, limit: int) -> list[bytes]:
        rows = self._database.execute(
            "SELECT path FROM exceptions WHERE retry_at <= ? ORDER BY retry_at LIMIT ?", (now, limit)
        )
        return [row[0] for row in rows]

    def first_retry_at(self) -> float | None:
        row = self._database.execute("SELECT min(retry_at) FROM exceptions").fetchone()
        return None if row[0] is None else float(row[0])

    def postpone(self, path: bytes, retry_at: float) -> None:
        self._database.execute("UPDATE exceptions SET retry_at = ? WHERE path = ?", (retry_at, path))

    def forget_future(self, now: float) -> None:
        self._database.execute("UPDATE exceptions SET retry_at = ? WHERE retry_at > ?", (now, now))

    def make_due_in(self, directory: bytes, at: float) -> None:
        """Look again at the paths of this directory: it was listed, and some of them may be gone."""
        if self.count:  # nearly always there is none, and every listing asks
            below = len(directory) + 1 if directory else 0
            self._database.execute(
                "UPDATE exceptions SET retry_at = min(retry_at, ?) WHERE path > ? AND path < ? "
                "AND instr(substr(path, ?), x'2f') = 0",
                (at, *_bounds(directory), below + 1),
            )

    def make_due_below(self, directory: bytes, at: float) -> None:
        """Look again at everything below this directory: it is gone."""
        if self.count:
            self._database.execute(
                "UPDATE exceptions SET retry_at = min(retry_at, ?) WHERE path > ? AND path < ?",
                (at, *_bounds(directory)),
            )

    def page(self, after: bytes, limit: int) -> list[tuple[bytes, str]]:
        """In order of path, beginning behind ``after``: for people."""
        rows = self._database.execute(
            "SELECT path, reason FROM exceptions WHERE path > ? ORDER BY path LIMIT ?", (after, limit)
        )
        return [(row[0], row[1]) for row in rows]

    def clear(self) -> None:
        self._database.execute("DELETE FROM exceptions")
        self.count = 0


def _bounds(directory: bytes) -> tuple[bytes, bytes]:
    """All paths below a directory lie between these: '0' follows '/', and no name has 256 bytes."""
    return (directory + b"/", directory + b"0") if directory else (b"", b"\xff" * 256)
