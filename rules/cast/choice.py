"""Which chunk a peer asks its rack-mates for next, of whom, and which requests it answers.

Who calls what: the peer's scheduler calls ``next_chunk`` and ``source_of`` whenever fewer than ``in_flight`` chunks are
on their way to it from rack-mates, and ``endgame_chunk`` when there is nothing more to ask for; its uploads call
``admits``. The simulator calls the same functions, compiled: so they are plain loops over arrays and numbers, and
chance comes in as a number.

Order: any of the lowest ``WINDOW`` chunks that are missing here and present in the rack. Rarest first would spread over
the whole file and make every re-serve a disk read; in strict order all would want the same one. The rarest of a sample
of the window was slower than any of it: chunks that most have are then left until the end, one here and one there.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Flags: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int16]

WINDOW = 32
"""A peer chooses among so many chunks: what it re-serves is young enough to be in the page cache."""
IN_FLIGHT = 8
"""Chunks on their way from rack-mates: enough that one slow source costs an eighth. Imports come on top."""
IN_FLIGHT_SLOW = 3
"""The same to a host that is known to be slow: what it has under way holds its sources' places for long. With eight, 20
slow hosts of 1,000 made the healthy ones wait for 1.2 s; the slow one itself is as soon with three."""
SOURCES = 3
"""They come from at least so many, where there are so many."""
DUPLICATES = 2
"""At the end a peer has at most so many chunks on their way twice, none more often."""
UPLOADS = 8
"""Uploads to rack-mates at a time: as many as they ask for on average. With more, some uplinks would be shared by many
and others by few, and a downlink that waits for the former stands still in part."""
UPLOADS_ACROSS = 6
"""Uploads to other racks at a time, on top: a chunk that crosses feeds a whole rack."""
UPLOADS_PER_CHUNK = 4
"""Uploads of one chunk at a time to rack-mates; as many again to other racks."""

NONE = -1


def next_chunk(had: Flags, asked: Counts, holders: Counts, first: int, chance: float) -> int:
    """The chunk to ask rack-mates for, or NONE.

    ``had``, ``asked`` (requests under way) and ``holders`` (rack-mates that have it and may be asked at all) are by
    chunk; ``first`` is no higher than the lowest missing one; ``chance`` is uniform in [0, 1).
    """
    window = np.empty(WINDOW, np.int64)
    found = 0
    for chunk in range(first, len(had)):
        if not had[chunk] and asked[chunk] == 0 and holders[chunk] > 0:
            window[found] = chunk
            found += 1
            if found == WINDOW:
                break
    return int(window[int(chance * found)]) if found > 0 else NONE


def endgame_chunk(had: Flags, asked: Counts, holders: Counts, first: int) -> int:
    """The chunk to ask a second source for, or NONE: only when each missing chunk is under way, in or from outside.

    Chunks that nobody in the rack has are left alone, and so is everything while DUPLICATES are on their way twice.
    """
    best = NONE
    twice = 0
    for chunk in range(first, len(had)):
        if had[chunk]:
            continue
        if asked[chunk] == 0:
            return NONE
        if asked[chunk] > 1:
            twice += 1
            if twice == DUPLICATES:
                return NONE
        elif best == NONE and holders[chunk] > 1:
            best = chunk
    return best


def source_of(holds: Flags, usable: Flags, slow: Flags, load: Counts, chance: float) -> int:
    """The rack-mate to ask for a chunk, or NONE: of those that hold it and are usable the one with least of our load.

    All by rack-mate. ``usable`` is false for the dead, the quarantined, those that just said BUSY, and those that were
    asked for this very chunk; ``load`` counts our requests under way there. A slow one is asked only where nobody else
    holds the chunk, busy or not. No mate is given more than its share of IN_FLIGHT over SOURCES. Equals by chance.
    """
    mates = len(holds)
    start = int(chance * mates)
    able = 0
    healthy = False
    for mate in range(mates):
        if not slow[mate]:
            able += 1
            healthy = healthy or holds[mate]
    most = -(-IN_FLIGHT // max(1, min(SOURCES, able)))
    best = NONE
    for place in range(mates):
        mate = (start + place) % mates
        if not holds[mate] or not usable[mate] or load[mate] >= most or (slow[mate] and healthy):
            continue
        if best == NONE or load[mate] < load[best]:
            best = mate
    return best


def in_flight(slow: bool) -> int:
    """How many chunks a host has on their way from rack-mates; ``slow``: it is known to be."""
    return IN_FLIGHT_SLOW if slow else IN_FLIGHT


def admits(crosses: bool, uploads: int, uploads_of_chunk: int) -> bool:
    """Whether a source serves one more request at once, or says BUSY.

    ``uploads`` and ``uploads_of_chunk`` are under way in the same direction: to other racks (``crosses``), or inside
    the rack. The two do not take each other's places.
    """
    return uploads < (UPLOADS_ACROSS if crosses else UPLOADS) and uploads_of_chunk < UPLOADS_PER_CHUNK
