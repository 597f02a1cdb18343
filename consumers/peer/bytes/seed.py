"""A file that is here already, read-only: the source of a cast, or what an earlier run installed of one."""

from __future__ import annotations

import os
import stat
import threading
from io import FileIO
from pathlib import Path

from blake3 import blake3

from headwater.consumers.peer.bytes.store import ChunkWriter, Hashes
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import HASH_BYTES, MIB, Chunks
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


class InstalledFile(SeedFile):
    """The ChunkStore of a file that an earlier run installed, whose every chunk was proven again.

    ``hashes``: of all chunks. Reads the whole file. Raises NotFound or Torn where it is not what was installed.
    """

    def __init__(self, path: Path, chunks: Chunks, hashes: bytes) -> None:
        super().__init__(path, chunks)
        try:
            with open(os.dup(self._file), "rb", buffering=0) as file:
                for chunk in range(chunks.count):
                    if _hash(file, chunks.span(chunk)[1]) != hashes[chunk * HASH_BYTES :][:HASH_BYTES]:
                        raise Torn(f"{path} changed since it was installed.", asked="It was to be served again.")
        except BaseException:
            self.close()
            raise
        self.learn(0, hashes)

    def discard(self) -> None:
        """Serves it no longer. What is installed stays."""
        self.close()


def _hash(file: FileIO, length: int) -> bytes:
    """Of the next bytes of the file; of fewer where it ends."""
    proof = blake3()
    while length and (piece := file.read(min(length, MIB))):
        proof.update(piece)
        length -= len(piece)
    return proof.digest()


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
