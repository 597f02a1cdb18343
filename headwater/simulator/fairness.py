"""Max-min fair rates: no transfer can have more unless one that has no more than it gets less.

Progressive filling, all bottlenecks of a round at once: a link whose equal share is the lowest that any of its
transfers meets on its way is a bottleneck now, whatever happens elsewhere; its transfers get that share, and what is
left is shared anew. With ``tolerance`` 0 and rounds enough the result is exact. Otherwise it is still within every
capacity: a transfer never gets more than the least equal share on its way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.simulator.compiled import compiled

LONGEST_PATH = 8
"""Links of a transfer at most: NIC up and down, rack up and down, disk read and write, both disks as a whole."""


class Scratch(NamedTuple):
    """Memory of ``share_fairly``, used again by each call."""

    remaining: NDArray[np.float64]
    users: NDArray[np.int64]
    share: NDArray[np.float64]
    lowest: NDArray[np.float64]
    level: NDArray[np.float64]
    waiting: NDArray[np.int64]


def scratch(links: int, transfers: int) -> Scratch:
    return Scratch(
        np.zeros(links),
        np.zeros(links, np.int64),
        np.zeros(links),
        np.zeros(links),
        np.zeros(transfers),
        np.zeros(transfers, np.int64),
    )


@compiled
def share_fairly(
    capacity: NDArray[np.float64],
    paths: NDArray[np.int64],
    lengths: NDArray[np.int64],
    active: NDArray[np.int64],
    rates: NDArray[np.float64],
    memory: Scratch,
    tolerance: float,
    rounds: int,
) -> int:
    """Sets ``rates`` of the transfers named by ``active``; returns the rounds it took.

    ``capacity``: of each link. ``paths``: (transfer, place) links on its way, ``lengths`` of them. ``tolerance``: a
    link counts as a bottleneck whose share is so little (relatively) above the lowest on its transfers' ways. After
    ``rounds`` the transfers that are left get the least share on their way.
    """
    remaining, users, share, lowest, level, waiting = memory
    remaining[:] = capacity
    users[:] = 0
    left = len(active)
    waiting[:left] = active
    for transfer in active:
        for place in range(lengths[transfer]):
            users[paths[transfer, place]] += 1
    done = 0
    while left > 0:
        done += 1
        for link in range(len(capacity)):
            if users[link] > 0:
                share[link] = max(0.0, remaining[link]) / users[link]
                lowest[link] = np.inf
        for index in range(left):
            transfer = waiting[index]
            least = np.inf
            for place in range(lengths[transfer]):
                least = min(least, share[paths[transfer, place]])
            level[transfer] = least
            for place in range(lengths[transfer]):
                link = paths[transfer, place]
                lowest[link] = min(lowest[link], least)
        kept = 0
        for index in range(left):
            transfer = waiting[index]
            settled = done >= rounds
            for place in range(lengths[transfer]):
                link = paths[transfer, place]
                settled = settled or lowest[link] >= share[link] * (1.0 - tolerance)
            if settled:
                rates[transfer] = level[transfer]
                for place in range(lengths[transfer]):
                    link = paths[transfer, place]
                    remaining[link] -= level[transfer]
                    users[link] -= 1
            else:
                waiting[kept] = transfer
                kept += 1
        left = kept
    return done
