"""Paths that must be read and sent again although nothing about them moved: on disk until that has happened."""

from __future__ import annotations

import sqlite3

_TABLE = "CREATE TABLE IF NOT EXISTS requests (path BLOB PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID"


class RequestMarks:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(_TABLE)
        self.count = int(database.execute("SELECT count(*) FROM requests").fetchone()[0])

    def mark(self, path: bytes, reason: str) -> None:
        self.count += not self.asked(path)
        self._database.execute("INSERT OR REPLACE INTO requests VALUES (?, ?)", (path, reason))

    def asked(self, path: bytes) -> bool:
        if not self.count:
            return False  # nearly always: a walk asks for each of its files
        return self._database.execute("SELECT 1 FROM requests WHERE path = ?", (path,)).fetchone() is not None

    def answered(self, path: bytes) -> None:
        if self.count:
            self.count -= self._database.execute("DELETE FROM requests WHERE path = ?", (path,)).rowcount

    def clear(self) -> None:
        self._database.execute("DELETE FROM requests")
        self.count = 0
