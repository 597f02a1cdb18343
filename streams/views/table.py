"""The views' table as Faust keeps it: in memory, and on its changelog topic as plain telemetry records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from faust.serializers.codecs import Codec

from headwater.rules.rates import bucket_of
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Telemetry
from headwater.streams.views.picture import Row, expired, newer


class RecordCodec(Codec):
    """Our wire format, as one of Faust's codecs."""

    def _loads(self, value: bytes) -> Any:
        return decode(value)

    def _dumps(self, record: Any) -> bytes:
        return encode(record)


class Samples:
    """What each incarnation last said in each bucket.

    Every write is safe to repeat: a row is replaced by a later word of the same incarnation only.
    """

    def __init__(self, app: Any) -> None:
        self._table = app.Table("samples", partitions=1, key_type=bytes)
        # Faust derives it from the type of the values, and knows no other way to say it.
        self._table.value_serializer = RecordCodec()

    def file(self, said: Telemetry, heard_at: float) -> None:
        """Keep a word that the log took at ``heard_at``, unless a later one of its bucket is there."""
        key = _key(Row(bucket_of(heard_at), said))
        known = self._table.get(key)
        if newer(known, said) is not known:
            self._table[key] = said

    def rows(self) -> Iterable[Row]:
        return [Row(_bucket(key), said) for key, said in self._table.items()]

    def forget(self, end: int) -> None:
        """Drop what no view needs any more."""
        for row in expired(self.rows(), end):
            self._table.pop(_key(row), None)


def _key(row: Row) -> bytes:
    return f"{row.said.incarnation}/{row.bucket}".encode()


def _bucket(key: bytes) -> int:
    return int(key.rpartition(b"/")[2])
