"""The chunks' places in a file that is being received, and who may write there.

A place belongs to the first that writes it. Whoever fetches the same chunk meanwhile, in an endgame or as a hedge,
writes into a spare file without a name and, if its bytes are right, copies them to the place and shuts the first one
out. So bytes that were proven in memory are the bytes on the disk, whatever another source sends for the same chunk.
"""

from __future__ import annotations

import os
import secrets
import threading

import numpy as np
from blake3 import blake3

from headwater.consumers.peer.bytes.store import ChunkWriter, Hashes, NoSecondCopy
from headwater.consumers.peer.bytes.writeback import Writeback
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import NoSpace, NotFound

_PIECE = 1024 * 1024


class Places:
    """Of one file; all methods from any thread. ``spare_folder``: where files without a name may be made."""

    def __init__(self, file: int, spare_folder: int, chunks: Chunks, hashes: Hashes) -> None:
        self._file = file
        self.spare_folder = spare_folder
        self.chunks = chunks
        self._hashes = hashes
        self._had = np.zeros(chunks.count, np.bool_)
        self._lock = threading.Lock()
        self._owners: dict[int, _InPlace] = {}
        self._writeback = Writeback(file)

    def close(self) -> None:
        """Whoever writes or reads still goes on with a descriptor of its own."""
        with self._lock:
            os.close(self._file)
            self._file = -1

    def duplicate(self) -> int:
        """A descriptor of the file, the caller's to close. Raises NotFound where it is closed."""
        with self._lock:
            if self._file < 0:
                raise NotFound("this file is neither received nor served any more.")
            return os.dup(self._file)

    def has(self, chunk: int) -> bool:
        return bool(self._had[chunk])

    def had(self) -> Bits:
        with self._lock:
            return self._had.copy()

    def begin(self, chunk: int) -> ChunkWriter:
        """As ``ChunkStore.begin``."""
        return self._in_place(chunk) or _Spare(self, chunk, self._hashes.of(chunk))

    def rehash(self, chunk: int) -> bool:
        """Is what lies in the place right? False while somebody writes there."""
        owner = self._in_place(chunk)
        if owner is None:
            return self.has(chunk)
        try:
            return owner.prove()
        finally:
            owner.close()

    def _in_place(self, chunk: int) -> _InPlace | None:
        writer = _InPlace(self, chunk, self._hashes.of(chunk))
        with self._lock:
            mine = not self._had[chunk] and self._owners.setdefault(chunk, writer) is writer
        if mine:
            return writer
        writer.close()
        return None

    def owner_or(self, writer: _InPlace) -> _InPlace:
        """Who writes to the place; the writer itself, from now on, where nobody does."""
        with self._lock:
            return self._owners.setdefault(writer.chunk, writer)

    def is_owner(self, writer: _InPlace) -> bool:
        with self._lock:
            return self._owners.get(writer.chunk) is writer

    def leave(self, writer: _InPlace) -> None:
        with self._lock:
            if self._owners.get(writer.chunk) is writer:
                del self._owners[writer.chunk]

    def prove(self, chunk: int) -> None:
        """The right bytes are in the chunk's place."""
        with self._lock:
            self._had[chunk] = True
        self._writeback.written(*self.chunks.span(chunk))


class _InPlace:
    """Writes to the chunk's own place, as long as nobody with proven bytes has shut it out."""

    def __init__(self, places: Places, chunk: int, expected: bytes) -> None:
        self.chunk = chunk
        self.lock = threading.Lock()
        """Held while bytes of the place change or are declared proven."""
        self.shut_out = False
        self._places = places
        self._expected = expected
        self._offset, self._length = places.chunks.span(chunk)
        self._hash = blake3()
        self._file = places.duplicate()

    def write(self, piece: memoryview) -> None:
        self._hash.update(piece)
        with self.lock:
            if not self.shut_out:
                _write(self._file, piece, self._offset)
        self._offset += len(piece)

    def finish(self) -> bool:
        if self._hash.digest() != self._expected:
            return False
        with self.lock:
            if not self.shut_out:
                self._places.prove(self.chunk)
        return True

    def overwrite(self, spare: int) -> None:
        """With the proven bytes of another; its lock is held."""
        start, length = self._places.chunks.span(self.chunk)
        for offset in range(0, length, _PIECE):
            piece = os.pread(spare, min(_PIECE, length - offset), offset)
            _write(self._file, memoryview(piece), start + offset)

    def prove(self) -> bool:
        """Reads what is in the place already, instead of ``write``."""
        end = self._offset + self._length
        for offset in range(self._offset, end, _PIECE):
            self._hash.update(os.pread(self._file, min(_PIECE, end - offset), offset))
        return self.finish() or self._places.has(self.chunk)

    def close(self) -> None:
        with self.lock:
            self._places.leave(self)
            os.close(self._file)


class _Spare:
    """Writes beside the file; what proves right is copied to its place, unless another was first."""

    def __init__(self, places: Places, chunk: int, expected: bytes) -> None:
        self._places = places
        self._chunk = chunk
        self._expected = expected
        self._hash = blake3()
        self._written = 0
        self._file = _nameless(places.spare_folder)

    def write(self, piece: memoryview) -> None:
        self._hash.update(piece)
        try:
            _write(self._file, piece, self._written)
        except NoSpace as error:
            raise NoSecondCopy(error.happened) from error
        self._written += len(piece)

    def finish(self) -> bool:
        if self._hash.digest() != self._expected:
            return False
        own = _InPlace(self._places, self._chunk, self._expected)
        try:
            while not self._settle(self._places.owner_or(own)):
                pass  # the place changed hands just now
        finally:
            own.close()
        return True

    def _settle(self, owner: _InPlace) -> bool:
        with owner.lock:
            if self._places.has(self._chunk):
                return True
            if not self._places.is_owner(owner):
                return False
            owner.shut_out = True
            owner.overwrite(self._file)
            self._places.prove(self._chunk)
            return True

    def close(self) -> None:
        os.close(self._file)


def _nameless(folder: int) -> int:
    """A file that goes when it is closed, on any filesystem: O_TMPFILE is not for all."""
    name = f"spare.{secrets.token_hex(8)}"
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise NoSecondCopy(f"no file for a second copy can be made: {error.strerror}.") from error
    return file


def _write(file: int, piece: memoryview, offset: int) -> None:
    try:
        while piece:
            written = os.pwrite(file, piece, offset)
            piece, offset = piece[written:], offset + written
    except OSError as error:
        raise NoSpace(f"the disk does not take a chunk: {error.strerror}.") from error
