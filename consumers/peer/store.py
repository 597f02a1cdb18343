"""Where the bytes of one cast are on this host, chunk by chunk: what is proven there, and only that, is handed on."""

from __future__ import annotations

from typing import Protocol

from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import Chunks


class ChunkWriter(Protocol):
    """One chunk on its way in. Of one thread; close it whatever happens."""

    def write(self, piece: memoryview) -> None:
        """The next bytes of the chunk: hashed while they are in the cache, then written. Raises OSError."""

    def finish(self) -> bool:
        """Do all bytes together have the chunk's hash? If so the store has the chunk from now on."""

    def close(self) -> None:
        """Gives the chunk's place free for another writer. What was not finished counts for nothing."""


class ChunkStore(Protocol):
    """The chunks of one cast. All methods from any thread; none blocks for longer than the disk does."""

    chunks: Chunks

    def has(self, chunk: int) -> bool:
        """Its verified bytes are here."""

    def had(self) -> Bits:
        """All that are here, as a copy."""

    def learn(self, first: int, hashes: bytes) -> None:
        """The manifest's hashes, 32 bytes each, of the chunks from ``first`` on. The same again changes nothing.

        Raises BadRecord where they lie outside the cast or differ from what was learned before.
        """

    def begin(self, chunk: int) -> ChunkWriter:
        """A writer for a chunk whose hash was learned (else ValueError).

        Several at once may write the same chunk: a bad one never harms what another has proven.
        """

    def serve(self, chunk: int) -> tuple[int, int, int]:
        """Descriptor, offset and length of a chunk that is here, for ``sendfile``. The descriptor stays the store's.

        Asked before the first byte of a chunk is sent and again before the last. Raises NotFound where the chunk is
        not here, Torn where the file changed since it was proven: nothing of it can be served any more.
        """
