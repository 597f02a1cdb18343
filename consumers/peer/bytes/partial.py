"""A cast's file while it comes: all its space from the start, chunks in any order, proven one by one."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress

import numpy as np

from headwater.consumers.peer.bytes import install
from headwater.consumers.peer.bytes.folder import CastFolder, valid_cast_name
from headwater.consumers.peer.bytes.places import Places
from headwater.consumers.peer.bytes.store import ChunkWriter, Hashes
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import Corrupt, NoSpace, NotFound, Refused, Torn
from headwater.schemas.cast_manifest import plain_file_name


class PartialFile:
    """The ChunkStore of a cast that this host receives, from its first byte until it is no longer served."""

    def __init__(self, folder: CastFolder, name: str, epoch: int, file_name: str, chunks: Chunks) -> None:
        """Raises Refused for a name that would leave the folder, or where another process works on the same cast;
        NoSpace, with the needed and free bytes in its facts, where the disk cannot hold the file."""
        if not valid_cast_name(name) or not plain_file_name(file_name):
            raise Refused(
                f"the cast {name!r} names its file {file_name!r}, which would not stay in its folder.",
                asked=f"The cast was to be received below {folder.path}.",
                kept="Nothing was written.",
            )
        self.chunks = chunks
        self._folder = folder
        self._target = install.Target(name, epoch, file_name, chunks.size)
        self._installed: tuple[int, int] | None = None
        file = _opened(folder, self._target.partial)
        try:
            self._left_over = _data_in(file, chunks)
            _allocate(file, chunks.size, folder)
        except BaseException:
            os.unlink(self._target.partial, dir_fd=folder.kept)
            os.close(file)
            raise
        self._hashes = Hashes(chunks)
        self._places = Places(file, folder.kept, chunks, self._hashes)

    def has(self, chunk: int) -> bool:
        return self._places.has(chunk)

    def had(self) -> Bits:
        return self._places.had()

    def learn(self, first: int, hashes: bytes) -> None:
        self._hashes.learn(first, hashes)

    def begin(self, chunk: int) -> ChunkWriter:
        return self._places.begin(chunk)

    def serve(self, chunk: int) -> tuple[int, int, int]:
        if not 0 <= chunk < self.chunks.count or not self.has(chunk):
            raise NotFound(f"chunk {chunk} of {self._target.name} is not here.")
        self.unchanged()
        start, length = self.chunks.span(chunk)
        return self._places.duplicate(), start, length

    def unchanged(self) -> None:
        """Before the installation we alone write the file; after it anybody may."""
        if self._installed is not None and self._installed != self._state():
            raise Torn(f"{self._folder.path / self._target.file_name} was changed after it was installed.")

    def left_over(self) -> list[int]:
        """Chunks of which an earlier run left bytes: they count after ``rehash`` only. Empty for a new file."""
        return list(self._left_over)

    def rehash(self, chunk: int) -> bool:
        """Reads a chunk whose hash was learned; if it has that hash, the store has the chunk from now on."""
        return self._places.rehash(chunk)

    def install(self, root: bytes) -> None:
        """Puts the file under its name, for good; it is served on. The steps: ``install.install``.

        Raises Corrupt where a chunk is missing or the hashes are not ``root``'s, Fenced where a newer epoch is
        installed: nothing appears under the name then.
        """
        missing = np.flatnonzero(~self.had()).tolist()
        if missing or self._hashes.root() != root:
            raise Corrupt(
                f"{len(missing)} of {self.chunks.count} chunks are missing."
                if missing
                else "the hashes of its chunks are not those that the sealed root stands for.",
                asked=f"The cast {self._target.name} was to be installed as {self._target.file_name}.",
                kept="No file appeared under that name.",
                advice="Cast the file again.",
                missing=missing,
            )
        file = self._places.duplicate()
        try:
            install.install(self._folder, self._target, file, root)
        finally:
            os.close(file)
        self._installed = self._state()

    def discard(self) -> None:
        """Removes the partial file, if it was not installed, and closes."""
        if self._installed is None:
            with suppress(FileNotFoundError):
                os.unlink(self._target.partial, dir_fd=self._folder.kept)
        self.close()

    def close(self) -> None:
        """Keeps the file for a later run. No fetch may be under way; uploads may."""
        self._places.close()

    def _state(self) -> tuple[int, int]:
        file = self._places.duplicate()
        try:
            found = os.fstat(file)
        finally:
            os.close(file)
        return found.st_size, found.st_mtime_ns


def _opened(folder: CastFolder, name: str) -> int:
    """The partial file, locked. A name that meanwhile went to another file is opened again."""
    while True:
        descriptor = folder.open_kept(name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(name, dir_fd=folder.kept, follow_symlinks=False).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(descriptor)
            raise Refused(
                f"another process receives {name} already.",
                asked=f"A cast was to be received below {folder.path}.",
                kept="Nothing was changed.",
                advice="Wait for it, or end it.",
            ) from None
        os.close(descriptor)


def _data_in(file: int, chunks: Chunks) -> list[int]:
    """Chunks with data anywhere in them. Space that was only set aside is a hole to SEEK_DATA."""
    if os.fstat(file).st_size != chunks.size:
        os.ftruncate(file, 0)
        return []
    found: set[int] = set()
    offset = 0
    while offset < chunks.size:
        try:
            begin = os.lseek(file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no more data
                break
            raise
        offset = os.lseek(file, begin, os.SEEK_HOLE)
        found.update(range(begin // chunks.chunk_bytes, (offset - 1) // chunks.chunk_bytes + 1))
    return sorted(found)


def _allocate(file: int, size: int, folder: CastFolder) -> None:
    """All the space now: a full disk is found before a byte is fetched."""
    if size == 0:
        return
    free = os.fstatvfs(file)
    room = free.f_bavail * free.f_frsize + os.fstat(file).st_blocks * 512
    try:
        if room < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise NoSpace(
            f"{size} bytes are needed and {room} are free there: {error.strerror}.",
            asked=f"A cast was to be received below {folder.path}.",
            kept="No byte of it was fetched.",
            advice="Make room, or name another folder.",
            needed=size,
            free=room,
        ) from error
