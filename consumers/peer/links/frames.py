"""The control frames that peers send each other, beside the bytes: what somebody has, and that it lives.

HAVE  1   epoch u64 | n u32 | chunk u32 … n times      it has these too
BITS  2   epoch u64 | bits of all chunks, packed       it has these and no others
PING  3   nothing                                      it is there
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from headwater.consumers.peer.bytes import wire
from headwater.rules.cast.bitmap import Bits, pack
from headwater.rules.errors import BadRecord

_HAVE, _BITS, _PING, _COMING = 1, 2, 3, 4
_EPOCH = struct.Struct(">Q")
_CHUNKS = struct.Struct(">QI")


@dataclass(frozen=True, slots=True)
class Have:
    """``coming``: not yet, but they are on their way to it from outside its rack."""

    epoch: int
    chunks: tuple[int, ...]
    coming: bool = False


@dataclass(frozen=True, slots=True)
class AllBits:
    """``packed``: as rules/cast/bitmap says; how many chunks they are of, the receiver knows."""

    epoch: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    pass


Frame: TypeAlias = Have | AllBits | Ping

PING = wire.frame(_PING, b"")


def have(epoch: int, chunks: Sequence[int], *, coming: bool = False) -> bytes:
    return wire.frame(
        _COMING if coming else _HAVE, _CHUNKS.pack(epoch, len(chunks)) + np.array(chunks, ">u4").tobytes()
    )


def all_bits(epoch: int, had: Bits) -> bytes:
    return wire.frame(_BITS, _EPOCH.pack(epoch) + pack(had))


def read(kind: int, body: bytes) -> Frame:
    """Raises BadRecord for what no peer of ours sends."""
    if kind == _PING:
        return Ping()
    if kind == _BITS and len(body) >= _EPOCH.size:
        return AllBits(_EPOCH.unpack_from(body)[0], body[_EPOCH.size :])
    if kind in (_HAVE, _COMING) and len(body) >= _CHUNKS.size:
        epoch, count = _CHUNKS.unpack_from(body)
        if len(body) == _CHUNKS.size + 4 * count:
            return Have(epoch, tuple(np.frombuffer(body, ">u4", offset=_CHUNKS.size).tolist()), kind == _COMING)
    raise BadRecord(f"a control frame of type {kind} with {len(body)} bytes")
