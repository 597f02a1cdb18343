"""Which partition a key goes to: the murmur2 hash that Java clients and our producers (murmur2_random) use."""

from __future__ import annotations

_SEED, _M, _R = 0x9747B28C, 0x5BD1E995, 24
_MASK = 0xFFFF_FFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a record with this key in a topic of so many."""
    return (_murmur2(key) & 0x7FFF_FFFF) % partitions


def _murmur2(data: bytes) -> int:
    """MurmurHash2 (Austin Appleby, public domain), 32 bits, with Kafka's seed."""
    hashed = _SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> _R) * _M & _MASK
        hashed = hashed * _M & _MASK ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
