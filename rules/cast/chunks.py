"""How a file is cut into chunks, and the root that stands for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from blake3 import blake3

from headwater.rules.errors import BadSettings

MIB = 1024 * 1024
SMALLEST, LARGEST = MIB, 64 * MIB
"""Bytes of a chunk. Smaller ones cost the control plane more than they win; larger ones make a lost one dear."""
FEWEST, USUAL, ENOUGH = 500, 16 * MIB, 6_000
"""Below 500 chunks the last hosts wait long for whole ones; up to 16 MiB larger chunks are better, since news of each
takes its time; and 6,000 fill the pipeline of a thousand hosts: 100 GB in chunks of 16 MiB are 5,961. Decision 210."""
MOST = 65_536
"""A cast of more chunks is refused: each peer keeps 32 bytes and some bits for every one of them."""
HASH_BYTES = 32

_ROOT_CONTEXT = "headwater 2026-11-30 cast root"


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a file of ``size`` bytes: all of ``chunk_bytes``, the last one shorter; none of an empty file.

    Raises BadSettings where ``chunk_bytes`` is no power of two from 1 to 64 MiB, or where there would be too many.
    """

    size: int
    chunk_bytes: int

    def __post_init__(self) -> None:
        if not SMALLEST <= self.chunk_bytes <= LARGEST or self.chunk_bytes & (self.chunk_bytes - 1):
            raise _refused(f"a chunk of {self.chunk_bytes} bytes is no power of two from 1 MiB to 64 MiB.")
        if self.size < 0:
            raise _refused(f"the size is {self.size}.")
        if self.count > MOST:
            raise _refused(
                f"{self.size} bytes in chunks of {self.chunk_bytes} are {self.count} chunks, more than {MOST}."
            )

    @property
    def count(self) -> int:
        return -(-self.size // self.chunk_bytes)

    def span(self, chunk: int) -> tuple[int, int]:
        """Where a chunk begins in the file, and its length. Raises IndexError for one that is not there."""
        if not 0 <= chunk < self.count:
            raise IndexError(f"chunk {chunk} of {self.count}")
        start = chunk * self.chunk_bytes
        return start, min(self.chunk_bytes, self.size - start)


def chunk_bytes_for(size: int) -> int:
    """The chunk for a file of ``size`` bytes, from 1 MiB to 64 MiB.

    The largest up to 16 MiB that cuts it into 500 or more, else 1 MiB; beyond, the smallest that cuts it into at most
    6,000, else 64 MiB.
    """
    chunk_bytes = SMALLEST
    while chunk_bytes < USUAL and size >= FEWEST * chunk_bytes * 2:
        chunk_bytes *= 2
    while chunk_bytes < LARGEST and -(-size // chunk_bytes) > ENOUGH:
        chunk_bytes *= 2
    return chunk_bytes


def root_of(chunks: Chunks, hashes: bytes) -> bytes:
    """32 bytes for the whole file: BLAKE3, in a context of its own, over size, chunk size and every chunk's hash.

    ``hashes`` are the chunks' BLAKE3 hashes, end to end. Chunks that were verified one by one prove the file with it,
    without a second pass over its bytes.
    """
    if len(hashes) != chunks.count * HASH_BYTES:
        raise ValueError(f"{len(hashes)} bytes of hashes for {chunks.count} chunks")
    described = chunks.size.to_bytes(8, "big") + chunks.chunk_bytes.to_bytes(8, "big")
    return blake3(described + hashes, derive_key_context=_ROOT_CONTEXT).digest()


def _refused(happened: str) -> BadSettings:
    return BadSettings(
        happened,
        asked="A file was to be cut into chunks for a cast.",
        kept="Nothing was sent.",
        advice="Leave the chunk size out: it is chosen by the file's size.",
    )
