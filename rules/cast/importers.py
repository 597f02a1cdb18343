"""Who fetches a chunk into a rack, and along which tree it crosses from rack to rack: the same answer on every host.

Rendezvous hashing (Thaler and Ravishankar, 1998): each (chunk, host) pair has a weight, and the hosts of a rack in the
order of their weights are the chunk's importers there. A host that leaves gives its chunks to the next in order, and
no other chunk changes hands.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.uint64]
Order: TypeAlias = NDArray[np.int64]

FANOUT = 2
"""An importer hands a chunk to the importers of so many further racks."""


def key_of(epoch: int, name: str) -> int:
    """A host's or a rack's key in a cast: 64 bits, spread evenly, different in each cast."""
    return int.from_bytes(blake3(f"{epoch}/{name}".encode()).digest(8), "big")


def weights(chunks: NDArray[np.int64], keys: Keys) -> NDArray[np.uint64]:
    """Weight of each chunk (rows) at each key (columns): splitmix64's finaliser (Steele, Lea and Flood, 2014)."""
    mixed = (chunks.astype(np.uint64)[:, None] + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ keys[None, :]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def ranked(chunks: NDArray[np.int64], keys: Keys) -> Order:
    """Of each chunk (rows) the indices of ``keys``, the heaviest first."""
    return np.argsort(weights(chunks, keys), axis=1, kind="stable")[:, ::-1]


def parent(position: int) -> int | None:
    """The place in a chunk's order of racks from which the rack at ``position`` gets it; None: from the origin."""
    return None if position == 0 else (position - 1) // FANOUT


def children(position: int, racks: int) -> range:
    """The places to which the rack at ``position`` hands the chunk on."""
    return range(min(racks, position * FANOUT + 1), min(racks, position * FANOUT + FANOUT + 1))


def told(position: int, racks: int) -> tuple[int, ...]:
    """The places whose importers hear of the chunk from the importer at ``position``: children, and the parent.

    The parent has it already where the chunk came down the tree; where it came another way, this is how it goes up.
    """
    above = () if position == 0 else ((position - 1) // FANOUT,)
    return (*children(position, racks), *above)
