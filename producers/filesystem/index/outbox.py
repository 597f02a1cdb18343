"""Records that are committed in the index and not yet acknowledged by Kafka, in the order they were made."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL, topic TEXT NOT NULL, key BLOB NOT NULL,
    value BLOB NOT NULL, event_time_us INTEGER NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One encoded record. ``id`` follows the order of ``seq``; a large file has several with one seq."""

    id: int
    seq: int
    topic: str
    key: bytes
    value: bytes
    event_time_us: int


class OutboxTable:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(_TABLE)
        self._new: list[tuple[int, str, bytes, bytes, int]] = []
        self.count = int(database.execute("SELECT count(*) FROM outbox").fetchone()[0])

    def add(self, seq: int, topic: str, key: bytes, value: bytes, event_time_us: int) -> None:
        """Put a record in; it is written with the others of its transaction, by ``flush``."""
        self._new.append((seq, topic, key, value, event_time_us))
        self.count += 1

    def flush(self) -> None:
        """Write what was added: the last statement of each transaction."""
        if self._new:
            self._database.executemany(
                "INSERT INTO outbox (seq, topic, key, value, event_time_us) VALUES (?, ?, ?, ?, ?)", self._new
            )
            self._new.clear()

    def after(self, id: int, limit: int) -> list[Waiting]:
        rows = self._database.execute("SELECT * FROM outbox WHERE id > ? ORDER BY id LIMIT ?", (id, limit))
        return [Waiting(*row) for row in rows]

    def first_seq(self) -> int | None:
        """The oldest change that Kafka does not have, if any: each one before it is acknowledged."""
        row = self._database.execute("SELECT seq FROM outbox ORDER BY id LIMIT 1").fetchone()
        return int(row[0]) if row else None

    def remove(self, ids: list[int]) -> None:
        self._database.executemany("DELETE FROM outbox WHERE id = ?", [(id,) for id in ids])
        self.count -= len(ids)

    def clear(self) -> None:
        self._database.execute("DELETE FROM outbox")
        self.count = 0
