"""How a chunk gets into a rack when it does not come along its tree, and how the origin paces itself.

Who calls what: the origin's scheduler calls ``offers`` when a slot becomes free or hashes appear, and ``offered_to``
for whom to offer to; every peer calls ``is_due`` and ``may_import`` for the chunks its rack lacks, every few tens of
milliseconds, and ``ways_in`` for where to ask. The simulator calls the same functions, compiled.

Normally only rank 0 imports, and only when told: by its parent in the tree, or by the origin. All else here is for
when somebody on the way died, is slow, or left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.rules.cast.importers import FANOUT

ORIGIN_SLOTS = 16
"""Chunks that the origin has offered or is sending. Each importer shares its downlink among about nine transfers, so
the origin needs more of them than that to fill its uplink."""
OVERTAKEN = 256
"""The origin goes through the chunks in order: one that lies so far below what the rack has already is due. The last
rack of a chunk's tree gets it about a hundred chunks after the first."""
STALLED_DEADLINES = 6
"""Nothing new in the whole rack for so long: the lowest missing chunks are due, wherever they may be."""
IMPORTS = 4
"""Chunks on their way to a host from outside its rack, the lowest first. Where the rack's uplink is the limit, more of
them at once only end later, all at the same moment, and the rack has nothing to spread until then."""
ORIGIN = -1


def offers(next_chunk: int, hashed: int, taken_slots: int) -> int:
    """How many further chunks, from ``next_chunk`` on, the origin offers now. ``hashed``: chunks with a hash."""
    return max(0, min(hashed - next_chunk, ORIGIN_SLOTS - taken_slots))


def offered_to(attempt: int) -> tuple[int, int]:
    """Position in the chunk's order of racks, and rank there, of the ``attempt``-th host (from 0) to offer it to.

    An offer that is not taken within a deadline, or whose host is gone, goes on: to the second in the first rack, the
    first in the second rack, and so on. Who imports a chunk tells its tree's neighbours on both sides.
    """
    return attempt // 2, attempt % 2


def is_due(chunk: int, highest_in_rack: int, told: bool, quiet_deadlines: float) -> bool:
    """Whether a chunk that the rack lacks should have come by now, so that the clock of ``may_import`` runs.

    ``told``: somebody outside has it (a HAVE from the tree, or a rack's summary). ``quiet_deadlines``: for how many
    deadlines nothing new came into the rack at all.
    """
    return told or chunk + OVERTAKEN <= highest_in_rack or quiet_deadlines >= STALLED_DEADLINES


def may_import(rank: int, due_seconds: float, deadline: float) -> bool:
    """Whether the host of this rank may fetch a chunk from outside that is due for so long and not in the rack.

    Rank 0 imports at once what it is told of; what it is not told of it waits for as all do, for one deadline. For the
    others ``due_seconds`` begin anew whenever a host of a lower rank brought any chunk into the rack (its HAVE was the
    first of that chunk): one that works through what it was told of is not overtaken, one that stands still is. The
    deadline is that of imports, from the median of imports, which share a narrower link.
    """
    return due_seconds >= (rank + 1) * deadline


def ways_in(position: int) -> NDArray[np.int64]:
    """Positions in the chunk's order of racks where to ask, in turn: the parent, its parent, …, the first, ORIGIN.

    Before ORIGIN come racks whose summary has the chunk, and after it the copy in S3.
    """
    found = np.empty(64, np.int64)
    count = 0
    while position > 0:
        position = (position - 1) // FANOUT
        found[count] = position
        count += 1
    found[count] = ORIGIN
    return found[: count + 1]
