"""What the caster is told: each value with its unit and the reason for its default."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CasterConfig:
    """The caster of one process."""

    hash_threads: int = field(default_factory=_cores)
    """Chunks that are read and hashed at once, each with 4 MiB of memory. A core hashes 1.4 GB/s and more, so that all
    of them keep up with any disk."""
    batch_chunks: int = 64
    """So many hashes make a record: 2 KiB, and 1 GB of the file in chunks of 16 MiB."""
    batch_seconds: float = 0.05
    """A hash waits this long for others, twice as long at most: peers ask for a chunk once they know its hash."""
    cached_share: float = 0.5
    """Of the memory that is available, so much of the file's beginning stays in the page cache after it was hashed,
    since the origin serves it next, and from the beginning. What lies behind is dropped again: it would push out the
    beginning, and what other programs have there."""
    copy_threads: int = 4
    """Parts of the copy in S3 that are sent at once. The origin's uplink serves the first rack meanwhile."""
    linger_seconds: float = 10.0
    """Where no hosts are named as targets, the origin stays this long after every peer that there is has the file, for
    those that join just then."""
