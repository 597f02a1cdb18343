"""A cast's file while it comes: all its space from the start, chunks in any order, proven one by one."""

from __future__ import annotations

from headwater.consumers.peer.folder import CastFolder
from headwater.consumers.peer.store import ChunkWriter
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks


class PartialFile:
    """The ChunkStore of a cast that this host receives, from its first byte until it is no longer served.

    Opening it raises Refused for a name that would leave the folder or where another process works on it, NoSpace
    (needed and free bytes in its facts) where the disk cannot hold the file.
    """

    def __init__(self, folder: CastFolder, name: str, epoch: int, file_name: str, chunks: Chunks) -> None:
        raise NotImplementedError

    chunks: Chunks

    def has(self, chunk: int) -> bool:
        raise NotImplementedError

    def had(self) -> Bits:
        raise NotImplementedError

    def learn(self, first: int, hashes: bytes) -> None:
        raise NotImplementedError

    def begin(self, chunk: int) -> ChunkWriter:
        raise NotImplementedError

    def serve(self, chunk: int) -> tuple[int, int, int]:
        raise NotImplementedError

    def left_over(self) -> list[int]:
        """Chunks of which an earlier run left bytes: they count after ``rehash`` only. Empty for a new file."""
        raise NotImplementedError

    def rehash(self, chunk: int) -> bool:
        """Reads a chunk whose hash was learned; if it has that hash, the store has the chunk from now on."""
        raise NotImplementedError

    def install(self, root: bytes) -> None:
        """Puts the file under its name, for good. It is served on. Raises Corrupt where a chunk is missing or the
        hashes are not ``root``'s, Fenced where a newer epoch of the cast is installed.
        """
        raise NotImplementedError

    def discard(self) -> None:
        """Removes the partial file, if it was not installed, and closes."""
        raise NotImplementedError

    def close(self) -> None:
        """Keeps the file for a later run. No upload may be under way: its descriptor goes."""
        raise NotImplementedError
