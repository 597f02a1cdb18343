"""The views' table as Faust keeps it: in memory, and on its changelog topic as plain telemetry records."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from headwater.rules.rates import bucket_of
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Telemetry
from headwater.streams.views.picture import Row, expired, newer

_KEPT = 100_000
"""Rows of some 1,500 processes: what is looked at every ten seconds is not decoded every ten seconds."""


class Samples:
    """What each incarnation last said in each bucket.

    Every write is safe to repeat: a row is replaced by a later word of the same incarnation only. Values are bytes to
    Faust, which takes anything else for JSON when it restores a table, and goes on without what it cannot read.
    """

    def __init__(self, app: Any) -> None:
        self._table = app.Table("samples", partitions=1, key_type=bytes, value_type=bytes)

    def file(self, said: Telemetry, heard_at: float) -> None:
        """Keep a word that the log took at ``heard_at``, unless a later one of its bucket is there."""
        key = _key(Row(bucket_of(heard_at), said))
        value = self._table.get(key)
        known = None if value is None else _telemetry(value)
        if newer(known, said) is not known:
            self._table[key] = encode(said)

    def rows(self) -> Iterable[Row]:
        return [Row(_bucket(key), _telemetry(value)) for key, value in self._table.items()]

    def forget(self, end: int) -> None:
        """Drop what no view needs any more."""
        for row in expired(self.rows(), end):
            self._table.pop(_key(row), None)


@lru_cache(_KEPT)
def _telemetry(value: bytes) -> Telemetry:
    record = decode(value)
    assert isinstance(record, Telemetry), "nobody else writes to the changelog"
    return record


def _key(row: Row) -> bytes:
    return f"{row.said.incarnation}/{row.bucket}".encode()


def _bucket(key: bytes) -> int:
    return int(key.rpartition(b"/")[2])
