"""A file that is here already, read-only, as the source of a cast."""

from __future__ import annotations

from pathlib import Path

from headwater.consumers.peer.store import ChunkWriter
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks


class SeedFile:
    """The ChunkStore of the origin: a chunk is here as soon as the manifest says its hash."""

    def __init__(self, path: Path, chunks: Chunks) -> None:
        """Open it before the file is hashed: from now on any change is seen. Raises NotFound, or Torn where its size
        is not that of ``chunks``."""
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

    def close(self) -> None:
        raise NotImplementedError
