"""How much was deleted lately, and how much more an operator consented to. On disk: a restart forgets neither."""

from __future__ import annotations

import sqlite3

_HOUR = 3600.0
_TABLE = """
CREATE TABLE IF NOT EXISTS deletes (hour INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS consent (only INTEGER PRIMARY KEY CHECK (only = 0), paths INTEGER NOT NULL);
"""


class DeleteTally:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(_TABLE)
        row = database.execute("SELECT paths FROM consent").fetchone()
        self.consented = int(row[0]) if row else 0

    def add(self, count: int, now: float) -> None:
        """So many tombstones were recorded."""
        hour = int(now // _HOUR)
        self._database.execute("DELETE FROM deletes WHERE hour < ?", (hour - 24,))
        self._database.execute(
            "INSERT INTO deletes VALUES (?, ?) ON CONFLICT (hour) DO UPDATE SET count = count + excluded.count",
            (hour, count),
        )

    def within_a_day(self, now: float) -> int:
        """Tombstones of the last 24 hours (by the hour)."""
        query = "SELECT coalesce(sum(count), 0) FROM deletes WHERE hour > ?"
        return int(self._database.execute(query, (int(now // _HOUR) - 24,)).fetchone()[0])

    def consent(self, paths: int) -> None:
        """So many more may go; 0: the consent is used up."""
        if paths != self.consented:
            self.consented = paths
            self._database.execute("INSERT OR REPLACE INTO consent VALUES (0, ?)", (paths,))

    def clear(self) -> None:
        self._database.execute("DELETE FROM deletes")
        self._database.execute("DELETE FROM consent")
        self.consented = 0
