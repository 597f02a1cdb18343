"""Manifests: the same bytes for the same rows, every row back, and deltas that apply in order."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.errors import Corrupt
from headwater.rules.identity import dataset_path
from headwater.schemas.manifest import Change, ManifestRow, applied, decode, encode
from headwater.schemas.records import FileType, Guarantee

ABOUT = {"dataset": "films", "version": "3", "kind": "delta"}

numbers = st.integers(0, 2**63 - 1)
rows = st.builds(
    ManifestRow,
    source=st.sampled_from(["films", "stills"]),
    path=st.binary(min_size=1, max_size=40),
    change=st.sampled_from(Change),
    file_type=st.sampled_from([FileType.regular, FileType.symlink]),
    hash=st.none() | st.binary(min_size=32, max_size=32),
    generation=st.none() | st.integers(1, 9),
    size=numbers,
    mtime_ns=st.integers(-(2**62), 2**62),
    mode=st.integers(0, 0o7777),
    uid=numbers,
    gid=numbers,
    link_target=st.none() | st.binary(max_size=20),
    epoch=numbers,
    seq=numbers,
    guarantee=st.sampled_from(Guarantee),
)
tables = st.lists(rows, max_size=30, unique_by=lambda row: (row.source, row.path))


def by_place(given_rows: list[ManifestRow]) -> list[ManifestRow]:
    return sorted(given_rows, key=lambda row: dataset_path(row.source, row.path).encode())


@given(tables)
@settings(deadline=None)
def test_every_row_comes_back_in_the_order_of_places(table: list[ManifestRow]) -> None:
    assert list(decode(encode(table, ABOUT))) == by_place(table)


@given(tables, st.integers())
@settings(deadline=None)
def test_the_same_rows_give_the_same_bytes(table: list[ManifestRow], seed: int) -> None:
    shuffled = random.Random(seed).sample(table, len(table))

    assert encode(shuffled, dict(reversed(ABOUT.items()))) == encode(table, ABOUT)


def test_what_it_is_about_is_in_the_file_for_any_reader_of_parquet() -> None:
    table = pq.read_table(pa.BufferReader(encode([], ABOUT)))

    assert table.schema.metadata == {b"headwater." + k.encode(): v.encode() for k, v in ABOUT.items()}
    assert table.column_names[:3] == ["place", "source", "path"]


@given(st.lists(tables, max_size=4))
@settings(deadline=None)
def test_applying_deltas_gives_what_a_dictionary_gives(deltas: list[list[ManifestRow]]) -> None:
    files: dict[tuple[str, bytes], ManifestRow] = {}
    for delta in deltas:
        for row in delta:
            files.pop((row.source, row.path), None)
            if row.change is not Change.removed:
                files[row.source, row.path] = replace(row, change=Change.added)

    assert list(applied(map(by_place, deltas))) == by_place(list(files.values()))


def other_table() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"place": ["a"]}), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("data", [b"", b"PAR1", encode([], ABOUT)[:-1], other_table()])
def test_bytes_that_are_no_manifest_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not a manifest"):
        list(decode(data))
