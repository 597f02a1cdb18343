"""The manifest of a dataset version: a Parquet table of what changes from its parent, one row a path.

A full manifest (a *base*) is the delta from the empty dataset: the same table, every row ``added``. So a version is
read by applying, to a base, the deltas that follow it. Rows are in the order of their place in the dataset, hence
everything here streams, and a manifest merges with a listing of lakeFS, which has the same order.

The bytes of a manifest follow from its rows alone, so its BLAKE3 names it: written twice, it is one object.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.rules.errors import Corrupt
from headwater.rules.identity import HASH_BYTES, Clock, dataset_path
from headwater.schemas.records import FileType, Guarantee


class Change(StrEnum):
    added = "added"
    changed = "changed"
    removed = "removed"


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One path of a version. A ``removed`` row has the clock of the removal and describes what went."""

    source: str
    path: bytes
    change: Change
    file_type: FileType
    hash: bytes | None
    """BLAKE3 of the content; None for a symbolic link."""
    generation: int | None
    """Which generation of the object holds the content: with ``hash`` its key in S3."""
    size: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int
    link_target: bytes | None
    epoch: int
    seq: int
    guarantee: Guarantee

    @property
    def place(self) -> str:
        """The path in the dataset, as lakeFS has it."""
        return dataset_path(self.source, self.path)

    @property
    def clock(self) -> Clock:
        return Clock(self.epoch, self.seq)


SCHEMA = pa.schema(
    [
        pa.field("place", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("change", pa.string(), nullable=False),
        pa.field("file_type", pa.string(), nullable=False),
        pa.field("hash", pa.binary(HASH_BYTES)),
        pa.field("generation", pa.int32()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("mode", pa.int32(), nullable=False),
        pa.field("uid", pa.int64(), nullable=False),
        pa.field("gid", pa.int64(), nullable=False),
        pa.field("link_target", pa.binary()),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("guarantee", pa.string(), nullable=False),
    ]
)
_ROW_COLUMNS = SCHEMA.names[1:]
_BATCH_ROWS = 20_000
_GROUP_ROWS = 100_000


def encode(rows: Iterable[ManifestRow], about: Mapping[str, str]) -> bytes:
    """The Parquet bytes of these rows, in whatever order they come; ``about`` (dataset, version, kind) goes with them.

    Held in memory as Arrow columns: about 200 bytes a row.
    """
    source = iter(rows)
    batches = []
    while batch := list(islice(source, _BATCH_ROWS)):
        columns: dict[str, list[Any]] = {"place": [row.place for row in batch]}
        columns |= {name: [getattr(row, name) for row in batch] for name in _ROW_COLUMNS}
        batches.append(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))
    schema = SCHEMA.with_metadata({f"headwater.{key}": about[key] for key in sorted(about)})
    table = pa.Table.from_batches(batches, schema=SCHEMA).sort_by("place").cast(schema)
    sink = pa.BufferOutputStream()
    # Everything that shapes the bytes is said here, so that a default that changes cannot change them.
    pq.write_table(
        table,
        sink,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=["source", "change", "file_type", "guarantee"],
        write_statistics=["place"],
        row_group_size=_GROUP_ROWS,
    )
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def with_prefix(prefix: str) -> pc.Expression:
    """Selects the places that start so."""
    return pc.starts_with(pc.field("place"), prefix)


def at(places: Collection[str]) -> pc.Expression:
    """Selects exactly these places."""
    return pc.field("place").isin(pa.array(sorted(places), pa.string()))


def decode(data: bytes, where: pc.Expression | None = None) -> Iterator[ManifestRow]:
    """The rows that ``where`` selects (all without it), in the order of their places.

    Raises Corrupt where the bytes are no manifest.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=SCHEMA.names):
            selected = batch if where is None else batch.filter(where)
            columns = [selected.column(name).to_pylist() for name in _ROW_COLUMNS]
            for values in zip(*columns, strict=True):
                yield row_of(dict(zip(_ROW_COLUMNS, values, strict=True)))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise Corrupt(f"the bytes are not a manifest of a dataset version: {error}") from error


def row_of(values: dict[str, Any]) -> ManifestRow:
    """A row from its plain values by name, as Parquet and the catalog give them."""
    values["change"] = Change(values["change"])
    values["file_type"] = FileType(values["file_type"])
    values["guarantee"] = Guarantee(values["guarantee"])
    return ManifestRow(**values)


def applied(deltas: Iterable[Iterable[ManifestRow]]) -> Iterator[ManifestRow]:
    """The files of a version, in the order of their places: a base and the deltas after it, oldest first, made one.

    Of each place the newest delta's row counts; a removed one is not there. Every row comes out as ``added``.
    """
    merged = heapq.merge(*(_aged(delta, age) for age, delta in enumerate(deltas)), key=_place_then_newest)
    for _place, rows in groupby(merged, key=lambda aged: aged[0]):
        newest = next(rows)[2]
        if newest.change is not Change.removed:
            yield replace(newest, change=Change.added)


_Aged = tuple[str, int, ManifestRow]


def _aged(delta: Iterable[ManifestRow], age: int) -> Iterator[_Aged]:
    return ((row.place, age, row) for row in delta)


def _place_then_newest(aged: _Aged) -> tuple[str, int]:
    return aged[0], -aged[1]
