"""Where the bytes of one cast are on this host, chunk by chunk: what is proven there, and only that, is handed on."""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np

from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import HASH_BYTES, Chunks, root_of
from headwater.rules.errors import BadRecord, NotFound, Unavailable


class NoSecondCopy(Unavailable):
    """A chunk that is on its way already cannot be received beside that: the disk has room for the file only."""


class ChunkWriter(Protocol):
    """One chunk on its way in. Of one thread; close it whatever happens."""

    def write(self, piece: memoryview) -> None:
        """The next bytes of the chunk: hashed while they are in the cache, then written.

        Raises NoSpace where the disk does not take them, NoSecondCopy where only this duplicate has no room.
        """

    def finish(self) -> bool:
        """Do all bytes together have the chunk's hash? If so the store has the chunk from now on."""

    def close(self) -> None:
        """Gives the chunk's place free for another writer. What was not finished counts for nothing."""


class ChunkStore(Protocol):
    """The chunks of one cast. All methods from any thread; none blocks for longer than the disk does."""

    @property
    def chunks(self) -> Chunks: ...

    def has(self, chunk: int) -> bool:
        """Its verified bytes are here."""

    def had(self) -> Bits:
        """All that are here, as a copy."""

    def learn(self, first: int, hashes: bytes) -> None:
        """The manifest's hashes, 32 bytes each, of the chunks from ``first`` on. The same again changes nothing.

        Raises BadRecord where they lie outside the cast or differ from what was learned before.
        """

    def begin(self, chunk: int) -> ChunkWriter:
        """A writer for a chunk whose hash was learned (else NotFound). Raises NoSecondCopy as ``write`` does.

        Several at once may write the same chunk: a bad one never harms what another has proven.
        """

    def serve(self, chunk: int) -> tuple[int, int, int]:
        """Descriptor, offset and length of a chunk that is here, for ``sendfile``; the caller closes the descriptor.

        Raises NotFound where the chunk is not here, Torn as ``unchanged`` does.
        """

    def unchanged(self) -> None:
        """Raises Torn where the file changed since it was proven: nothing of it can be served any more."""


class Hashes:
    """What the manifest has said so far of a cast's chunks. All methods from any thread."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._lock = threading.Lock()
        self._hashes = bytearray(chunks.count * HASH_BYTES)
        self._known = np.zeros(chunks.count, np.bool_)

    def learn(self, first: int, hashes: bytes) -> None:
        """As ``ChunkStore.learn``."""
        count, rest = divmod(len(hashes), HASH_BYTES)
        if rest or first < 0 or first + count > self._chunks.count:
            raise BadRecord(f"{len(hashes)} bytes of hashes from chunk {first} on, of {self._chunks.count} chunks")
        with self._lock:
            for chunk in range(first, first + count):
                place = slice(chunk * HASH_BYTES, (chunk + 1) * HASH_BYTES)
                said = hashes[(chunk - first) * HASH_BYTES :][:HASH_BYTES]
                if self._known[chunk] and self._hashes[place] != said:
                    raise BadRecord(f"two different hashes for chunk {chunk}")
                self._hashes[place] = said
                self._known[chunk] = True

    def known(self) -> Bits:
        with self._lock:
            return self._known.copy()

    def of(self, chunk: int) -> bytes:
        """Raises NotFound where it was not said yet."""
        with self._lock:
            if not self._known[chunk]:
                raise NotFound(f"the hash of chunk {chunk} is not known yet.")
            return bytes(self._hashes[chunk * HASH_BYTES : (chunk + 1) * HASH_BYTES])

    def root(self) -> bytes | None:
        """The root over all hashes; None while some are missing."""
        with self._lock:
            return root_of(self._chunks, bytes(self._hashes)) if self._known.all() else None
