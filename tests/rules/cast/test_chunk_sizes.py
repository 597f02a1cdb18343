import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.chunks import MIB, MOST, Chunks, chunk_bytes_for


@pytest.mark.parametrize(
    ("size", "mebibytes", "chunks"),
    [
        (0, 1, 0),
        (1, 1, 1),
        (200_000_000, 1, 191),
        (2_000_000_000, 2, 954),
        (3_000_000_000, 4, 716),
        (10_000_000_000, 16, 597),
        (100_000_000_000, 16, 5961),
        (200_000_000_000, 32, 5961),
        (1_000_000_000_000, 64, 14_902),
    ],
)
def test_the_chunk_goes_with_the_size(size, mebibytes, chunks):
    assert chunk_bytes_for(size) == mebibytes * MIB
    assert Chunks(size, chunk_bytes_for(size)).count == chunks


@given(st.integers(0, MOST * 64 * MIB), st.integers(0, 10**12))
def test_a_larger_file_has_no_smaller_chunks_and_never_too_many(size, more):
    larger = min(size + more, MOST * 64 * MIB)

    assert chunk_bytes_for(size) <= chunk_bytes_for(larger)
    assert Chunks(size, chunk_bytes_for(size)).count <= MOST
