"""How far the audit is in its cycle, and when the next one begins."""

from __future__ import annotations

import sqlite3

_TABLE = """
CREATE TABLE IF NOT EXISTS audit (
    only INTEGER PRIMARY KEY CHECK (only = 0), directory BLOB, name BLOB, cycle_at REAL NOT NULL
);
"""


class AuditMark:
    """``after`` is (directory, name) of the file that was audited last, None between two cycles."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(_TABLE)
        row = database.execute("SELECT directory, name, cycle_at FROM audit").fetchone()
        self.after: tuple[bytes, bytes] | None = None if row is None or row[0] is None else (row[0], row[1])
        self.cycle_at: float | None = row[2] if row else None

    def put(self, after: tuple[bytes, bytes] | None, cycle_at: float) -> None:
        """``cycle_at``: when the present cycle began, or the next one begins."""
        self.after, self.cycle_at = after, cycle_at
        directory, name = after or (None, None)
        self._database.execute("INSERT OR REPLACE INTO audit VALUES (0, ?, ?, ?)", (directory, name, cycle_at))

    def clear(self) -> None:
        self._database.execute("DELETE FROM audit")
        self.after = self.cycle_at = None
