"""The cut rule: what S3 allows, what an insertion moves, and that content alone decides."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.chunking import (
    FIXED_BYTES,
    LARGE_BYTES,
    MAX_PARTS,
    MIB,
    WHOLE_BYTES,
    PartSizes,
    next_part,
    part_sizes,
)

EAGER_BYTE = 93
"""Content of this byte alone is cut just above every minimum."""

SMALL = PartSizes(minimum=5 * 1024, average=8 * 1024, maximum=16 * 1024)


def cut(data: bytes, sizes: PartSizes = SMALL) -> list[bytes]:
    view, parts, offset = memoryview(data), [], 0
    while offset < len(data):
        length = next_part(view[offset : offset + sizes.maximum], len(data) - offset, len(parts), sizes)
        parts.append(data[offset : offset + length])
        offset += length
    return parts


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 400_000))
def test_parts_are_the_content_and_keep_the_sizes(seed: int, length: int) -> None:
    data = random.Random(seed).randbytes(length)
    parts = cut(data)
    assert b"".join(parts) == data
    assert all(SMALL.minimum <= len(part) <= SMALL.maximum for part in parts[:-1])
    assert 0 < len(parts[-1]) <= SMALL.maximum


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), at=st.integers(0, 399_999), inserted=st.binary(min_size=1, max_size=300))
def test_an_insertion_leaves_most_parts_as_they_were(seed: int, at: int, inserted: bytes) -> None:
    data = random.Random(seed).randbytes(400_000)
    before, after = set(cut(data)), cut(data[:at] + inserted + data[at:])
    assert sum(part not in before for part in after) <= 8


def test_an_append_keeps_every_part_but_the_last() -> None:
    data = random.Random(7).randbytes(300_000)
    assert cut(data + b"more" * 5_000)[: len(cut(data)) - 1] == cut(data)[:-1]


@given(content_bytes=st.integers(1, 5 * 1024**4))
def test_sizes_suffice_for_every_content_that_s3_holds(content_bytes: int) -> None:
    sizes = part_sizes(content_bytes)
    if content_bytes <= 64 * 1024 * 1024:
        assert sizes is None
        return
    assert sizes is not None
    assert 5 * MIB <= sizes.minimum <= sizes.average <= sizes.maximum <= 5 * 1024**3
    assert sizes.maximum * MAX_PARTS >= content_bytes
    assert sizes.maximum <= 128 * MIB or sizes.minimum == sizes.maximum


@pytest.mark.parametrize(
    ("content_bytes", "minimum_mib"),
    [(WHOLE_BYTES + 1, 5), (LARGE_BYTES, 5), (LARGE_BYTES + 1, 10), (2 * LARGE_BYTES + 1, 20), (FIXED_BYTES, 40)],
)
def test_parts_grow_in_steps(content_bytes: int, minimum_mib: int) -> None:
    sizes = part_sizes(content_bytes)
    assert sizes is not None
    assert sizes.minimum == minimum_mib * MIB


def test_content_that_asks_for_the_smallest_parts_still_fits_into_the_limit() -> None:
    window = memoryview(bytes([EAGER_BYTE]) * SMALL.maximum)
    assert next_part(window, MAX_PARTS * SMALL.average, 0, SMALL) < 1.01 * SMALL.minimum
    remaining, parts = MAX_PARTS * SMALL.average, 0
    while remaining:
        remaining -= next_part(window[: min(remaining, SMALL.maximum)], remaining, parts, SMALL)
        parts += 1
    assert 0.9 * MAX_PARTS < parts <= MAX_PARTS
