"""Hashes in order, of exactly the file's bytes, in memory that does not grow with it."""

import os
import threading
import time
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.producers.caster import hashing
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.source import Source
from headwater.rules.cast.chunks import MIB, Chunks
from headwater.rules.errors import Torn

CONFIG = CasterConfig(hash_threads=3)


def written(path: Path, size: int) -> bytes:
    content = b"".join(number.to_bytes(8, "little") for number in range(-(-size // 8)))[:size]
    path.write_bytes(content)
    return content


def hashes(path: Path, config: CasterConfig = CONFIG, chunk_bytes: int = MIB) -> bytes:
    with Source(path) as source:
        found = b""
        for first, batch in hashing.hashed(source, Chunks(source.identity.size, chunk_bytes), config):
            assert first * 32 == len(found)
            assert 0 < len(batch) <= config.batch_chunks * 32
            found += batch
        return found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.one_of(st.integers(0, 2 * MIB), st.sampled_from([0, 1, MIB - 1, MIB, MIB + 1, 9 * MIB, 9 * MIB + 17])),
    threads=st.integers(1, 5),
    batch=st.integers(1, 4),
)
def test_the_hashes_are_those_of_the_slices(tmp_path, size, threads, batch):
    content = written(tmp_path / "source", size)
    config = CasterConfig(hash_threads=threads, batch_chunks=batch)

    expected = [blake3(content[at : at + MIB]).digest() for at in range(0, size, MIB)]
    assert hashes(tmp_path / "source", config) == b"".join(expected)


def test_every_thread_reads_at_once(tmp_path, monkeypatch):
    """Each waits for two others before its first read."""
    written(tmp_path / "source", 6 * MIB)
    meeting, met, original = threading.Barrier(3), set(), os.preadv

    def preadv(descriptor, buffers, offset):
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            meeting.wait(20)
        return original(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    assert len(hashes(tmp_path / "source")) == 6 * 32
    assert len(met) == 3


def test_a_core_is_busy_with_reading_and_hashing_only(tmp_path):
    """Beside a plain loop of reads and hashes, in seconds of the processor. So every core hashes at its full rate, and
    a disk that is slower than all of them sets the pace."""
    written(tmp_path / "source", 48 * MIB)

    def plain() -> None:
        buffer = memoryview(bytearray(4 * MIB))
        with (tmp_path / "source").open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                blake3(buffer[:count]).digest()

    def seconds(work) -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    measured = [(seconds(plain), seconds(lambda: hashes(tmp_path / "source", chunk_bytes=16 * MIB))) for _ in range(4)]
    assert min(ours for _, ours in measured) < 1.5 * min(base for base, _ in measured)


def test_a_hash_does_not_wait_for_a_full_batch(tmp_path, monkeypatch):
    """A disk that stands still at the third chunk: the first two are given out."""
    written(tmp_path / "source", 4 * MIB)
    stuck = threading.Event()
    original = os.preadv

    def preadv(descriptor, buffers, offset):
        if offset == 2 * MIB:
            assert stuck.wait(20)
        return original(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    with Source(tmp_path / "source") as source:
        batches = hashing.hashed(source, Chunks(4 * MIB, MIB), CONFIG)
        early = next(batches)
        while early[0] + len(early[1]) // 32 < 2:
            early = next(batches)
        stuck.set()
        assert [first for first, _ in batches] == [2]


def test_a_file_that_is_cut_off_is_torn(tmp_path):
    written(tmp_path / "source", 3 * MIB)
    with Source(tmp_path / "source") as source:
        os.truncate(tmp_path / "source", 2 * MIB + 100)
        with pytest.raises(Torn, match="ends 1,048,476 bytes before the end of chunk 2"):
            list(hashing.hashed(source, Chunks(3 * MIB, MIB), CONFIG))


def test_a_reader_that_goes_away_leaves_no_thread_no_descriptor_and_chunks_unread(tmp_path, monkeypatch):
    """The second chunk is read when the threads were told to end."""
    written(tmp_path / "source", 10 * MIB)
    begun, told, reads, original = threading.Event(), threading.Event(), [], os.preadv

    class Ending(threading.Event):
        def set(self) -> None:
            super().set()
            told.set()

    def preadv(descriptor, buffers, offset):
        reads.append(offset)
        if offset:
            begun.set()
            assert told.wait(10)
        return original(descriptor, buffers, offset)

    monkeypatch.setattr(hashing, "Event", Ending)
    monkeypatch.setattr(os, "preadv", preadv)
    with Source(tmp_path / "source") as source:
        before = len(os.listdir("/proc/self/fd"))
        batches = hashing.hashed(source, Chunks(10 * MIB, MIB), CasterConfig(hash_threads=1, batch_chunks=1))
        next(batches)
        assert begun.wait(10)
        batches.close()
        assert not [one for one in threading.enumerate() if one.name.startswith("hash")]
        assert len(os.listdir("/proc/self/fd")) == before
    assert reads == [0, MIB]


def test_only_the_beginning_stays_in_the_page_cache(tmp_path, monkeypatch):
    written(tmp_path / "source", 6 * MIB)
    dropped = []
    original = os.posix_fadvise

    def advise(descriptor, offset, length, advice):
        if advice == os.POSIX_FADV_DONTNEED:
            dropped.append((offset, length))
        return original(descriptor, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(hashing, "_cached_bytes", lambda _: 4 * MIB)
    hashes(tmp_path / "source")
    assert sorted(dropped) == [(4 * MIB, MIB), (5 * MIB, MIB)]
