"""Which chunks somebody has, as bytes for the log: the bits of all chunks, deflated (RFC 1951).

A difference is packed in the same way: it holds the chunks that came since, a few bits among many zeros.
"""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.rules.errors import BadRecord

Bits: TypeAlias = NDArray[np.bool_]
"""One truth value for each chunk."""


def pack(have: Bits) -> bytes:
    return zlib.compress(np.packbits(have).tobytes(), 6, wbits=-15)


def unpack(packed: bytes, chunks: int) -> Bits:
    """The inverse of ``pack`` for so many chunks. Raises BadRecord for all else; inflates no more than they need."""
    length = -(-chunks // 8)
    inflate = zlib.decompressobj(wbits=-15)
    try:
        bits = inflate.decompress(packed, length + 1)
    except zlib.error as error:
        raise BadRecord(f"the bits of {chunks} chunks do not inflate: {error}") from error
    if len(bits) != length or not inflate.eof or inflate.unused_data:
        raise BadRecord(f"the bits of {chunks} chunks are {len(bits)} bytes, not {length}")
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=chunks).astype(np.bool_)
