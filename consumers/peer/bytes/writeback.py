"""Brings what was written to the disk behind the fetches, so that neither kernel nor the last fsync stalls them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque

DIRTY_BYTES = 128 * 1024 * 1024
"""Written and not yet on the disk at most: eight chunks of 16 MiB, what the fetches fill while the disk empties one."""
CACHED_BYTES = 32 * 1024 * 1024 * 1024
"""Left in the page cache for rack-mates: 3.5 % of 1 TB, from where nearly all is served again. Older pages give way
before they push out what the host's own programs read."""
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4

_sync_file_range = ctypes.CDLL(None).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class Writeback:
    """Of one file. ``written`` is called from any thread after each chunk, and blocks while the disk is behind."""

    def __init__(self, file: int, dirty_bytes: int = DIRTY_BYTES, cached_bytes: int = CACHED_BYTES) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._dirty = _Window(dirty_bytes)
        self._cached = _Window(cached_bytes)

    def written(self, start: int, length: int) -> None:
        _sync_file_range(self._file, start, length, _WRITE)
        with self._lock:
            late = self._dirty.slide(start, length)
        for span in late:
            _sync_file_range(self._file, *span, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
        with self._lock:
            old = [gone for span in late for gone in self._cached.slide(*span)]
        for span in old:
            os.posix_fadvise(self._file, *span, os.POSIX_FADV_DONTNEED)


class _Window:
    """The newest spans, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._spans: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def slide(self, start: int, length: int) -> list[tuple[int, int]]:
        """Takes a span in; returns those that fall out."""
        self._spans.append((start, length))
        self._bytes += length
        out = []
        while self._bytes > self._most:
            out.append(self._spans.popleft())
            self._bytes -= out[-1][1]
        return out
