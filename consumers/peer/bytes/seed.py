"""A file that is here already, read-only, as the source of a cast."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from headwater.consumers.peer.bytes.store import ChunkWriter, Hashes
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import NotFound, Torn


class SeedFile:
    """The ChunkStore of the origin: a chunk is here as soon as the manifest says its hash."""

    def __init__(self, path: Path, chunks: Chunks) -> None:
        """Open it before the file is hashed: from now on any change is seen. Raises NotFound, or Torn where its size
        is not that of ``chunks``."""
        self.chunks = chunks
        self._path = path
        self._hashes = Hashes(chunks)
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}.", asked="A file was to be cast.") from error
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode) or found.st_size != chunks.size:
            os.close(self._file)
            raise Torn(f"{path} is no file of {chunks.size} bytes.", asked="A file was to be cast.")
        self._state = _state(found)

    def has(self, chunk: int) -> bool:
        return bool(self._hashes.known()[chunk])

    def had(self) -> Bits:
        return self._hashes.known()

    def learn(self, first: int, hashes: bytes) -> None:
        self._hashes.learn(first, hashes)

    def begin(self, chunk: int) -> ChunkWriter:
        raise NotFound(f"{self._path} is a source: chunk {chunk} is not to be written.")

    def serve(self, chunk: int) -> tuple[int, int, int]:
        if not 0 <= chunk < self.chunks.count or not self.has(chunk):
            raise NotFound(f"chunk {chunk} of {self._path} is not hashed yet.")
        self.unchanged()
        start, length = self.chunks.span(chunk)
        with self._lock:
            if self._file < 0:
                raise NotFound(f"{self._path} is not served any more.")
            return os.dup(self._file), start, length

    def unchanged(self) -> None:
        with self._lock:
            changed = self._file >= 0 and _state(os.fstat(self._file)) != self._state
        if changed:
            raise Torn(f"{self._path} changed while it was cast.")

    def close(self) -> None:
        """Uploads under way may end."""
        with self._lock:
            os.close(self._file)
            self._file = -1


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
