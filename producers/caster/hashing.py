"""The hashes of a file's chunks in order, by as many threads as there are cores, in memory that does not grow.

Each thread takes the next chunk, reads it in pieces into a buffer of its own and hashes a piece while it is in the
processor's cache; reads and hashes let go of the interpreter. Chunks that are ready early wait as 32 bytes each.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event, local
from types import TracebackType

import psutil
from blake3 import blake3

from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.source import Source
from headwater.rules.cast.chunks import MIB, Chunks
from headwater.rules.errors import Torn

_PIECE_BYTES = 4 * MIB
"""One read: large enough that hashing, not calling, is the cost; small enough to stay in the processor's cache."""
_AHEAD = 4
"""Chunks for each thread that may be ready before the one whose turn it is."""


def hashed(
    source: Source, chunks: Chunks, config: CasterConfig, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[int, bytes]]:
    """Batches in order, from the first chunk to the last: the number of the first one, and the hashes end to end.

    Raises Torn where the file is shorter than it was, and the system's OSError.
    """
    first, batch, due = 0, list[bytes](), float("inf")
    with _Reader(source, chunks, _cached_bytes(config)) as reader:
        for digest in reader.in_order(config.hash_threads, config.batch_seconds):
            if digest:
                batch.append(digest)
                due = min(due, clock() + config.batch_seconds)
            if batch and (len(batch) == config.batch_chunks or clock() >= due):
                yield first, b"".join(batch)
                first, batch, due = first + len(batch), [], float("inf")
    if batch:
        yield first, b"".join(batch)


def _cached_bytes(config: CasterConfig) -> int:
    return int(psutil.virtual_memory().available * config.cached_share)


class _Reader:
    """Reads and hashes chunks in threads. What lies behind the first ``cached_bytes`` leaves the page cache again."""

    def __init__(self, source: Source, chunks: Chunks, cached_bytes: int) -> None:
        self._source = source
        self._chunks = chunks
        self._cached_bytes = cached_bytes
        self._ending = Event()
        self._own = local()
        self._descriptors: list[int] = []

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)

    def in_order(self, threads: int, seconds: float) -> Iterator[bytes | None]:
        """The chunks' hashes; None where the next one has not come within so many seconds, each time."""
        waiting = deque[Future[bytes]]()
        submitted = 0
        with ThreadPoolExecutor(threads, "hash") as pool:
            try:
                while waiting or submitted < self._chunks.count:
                    while submitted < self._chunks.count and len(waiting) < threads * _AHEAD:
                        waiting.append(pool.submit(self._hash, submitted))
                        submitted += 1
                    wait([waiting[0]], seconds)
                    yield waiting.popleft().result() if waiting[0].done() else None
            finally:
                self._ending.set()  # the threads stop at their next piece

    def _hash(self, chunk: int) -> bytes:
        descriptor, buffer = self._tools()
        start, length = self._chunks.span(chunk)
        os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)  # the disk gets the whole chunk to do
        hasher, done = blake3(), 0
        while done < length and not self._ending.is_set():
            count = os.preadv(descriptor, [buffer[: length - done]], start + done)
            if not count:
                raise Torn(
                    f"the file ends {length - done:,} bytes before the end of chunk {chunk}: it was cut off while it "
                    "was read.",
                    chunk=chunk,
                )
            hasher.update(buffer[:count])
            done += count
        if start + length > self._cached_bytes:
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_DONTNEED)
        return hasher.digest()

    def _tools(self) -> tuple[int, memoryview]:
        """This thread's descriptor and buffer."""
        if not hasattr(self._own, "tools"):
            descriptor = self._source.reopened()
            self._descriptors.append(descriptor)
            self._own.tools = (descriptor, memoryview(bytearray(_PIECE_BYTES)))
        tools: tuple[int, memoryview] = self._own.tools
        return tools
