"""Plans in which every host gets the whole file from one other: how fast each link runs, and when each host has it all.

Nodes are numbered: 0 is the origin, hosts follow. All links of a tree run at once, sharing max-min fairly what they
cross, and keep the rates that they have when the pipeline is full; a host passes a chunk on when it has all of it. So
finish times are exact, without steps of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.rules.cast.bounds import Fleet

Nodes: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.float64]

NOBODY = -1
"""The origin's source."""
OUTSIDE = -1
"""The origin's rack."""
_JUST = 1e-9
"""What is so near to a limit, as a share, has reached it."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Of each node its source and its rack. Sources have lower numbers than those whom they feed."""

    sources: Nodes
    racks: Nodes

    @property
    def crosses(self) -> Flags:
        """Whether a node is fed from outside its rack."""
        crossing: Flags = (self.sources != NOBODY) & (self.racks != self.racks[self.sources])
        return crossing

    def below(self, tops: Flags) -> Flags:
        """The nodes of ``tops`` and all whom they feed, near or far."""
        found = tops.copy()
        for node in range(1, len(found)):
            found[node] |= found[self.sources[node]]
        return found

    def without(self, dead: Flags) -> Tree:
        """The same, with the orphans fed by the nearest node above that lives. The dead keep their place, useless."""
        sources = self.sources.copy()
        for node in range(1, len(sources)):
            if dead[sources[node]]:
                sources[node] = sources[sources[node]]
        return Tree(sources, self.racks)


@dataclass(frozen=True, slots=True)
class Links:
    """Bytes a second that each node sends and receives at most, and that each rack's uplink carries either way."""

    up: Numbers
    down: Numbers
    rack: float

    @classmethod
    def of(cls, fleet: Fleet, slow: Nodes) -> Links:
        """Those of a fleet whose slow hosts are the nodes ``slow``. Where disks are slower than links, they count."""
        up, down = _node_rates(fleet)
        ups, downs = np.full(fleet.hosts + 1, float(up)), np.full(fleet.hosts + 1, float(down))
        ups[slow] *= fleet.slow_share
        downs[slow] *= fleet.slow_share
        ups[0] = min(fleet.origin_bytes_per_second, fleet.disk_read_bytes_per_second or np.inf)
        return cls(ups, downs, fleet.smallest_rack * fleet.host_bytes_per_second / fleet.oversubscription)


def _node_rates(fleet: Fleet) -> tuple[float, float]:
    """What a host sends and receives at most. A disk for both together, without page cache, gives half to each."""
    read, write = fleet.disk_read_bytes_per_second or np.inf, fleet.disk_write_bytes_per_second or np.inf
    both = fleet.disk_bytes_per_second or np.inf
    if fleet.page_cache:
        read = np.inf
    else:
        both /= 2
        read = min(read, both)
    return min(fleet.host_bytes_per_second, read), min(fleet.host_bytes_per_second, write, both)


def star(fleet: Fleet) -> Tree:
    """The origin feeds everybody."""
    return Tree(np.concatenate(([NOBODY], np.zeros(fleet.hosts, np.int64))), racks_in_turn(fleet))


def wide_tree(fleet: Fleet, fanout: int) -> Tree:
    """Each node feeds ``fanout`` others, whichever racks they stand in."""
    sources = (np.arange(fleet.hosts + 1) - 1) // fanout
    sources[0] = NOBODY
    return Tree(sources, np.concatenate(([OUTSIDE], np.arange(fleet.hosts) % fleet.racks)))


def chain(fleet: Fleet) -> Tree:
    """Each host feeds the next, rack by rack."""
    return Tree(np.arange(-1, fleet.hosts), racks_in_turn(fleet))


def rack_chains(fleet: Fleet) -> Tree:
    """The first host of each rack feeds the first of the next rack, and a chain in its own."""
    racks = racks_in_turn(fleet)
    sources = np.arange(-1, fleet.hosts)
    firsts = np.flatnonzero(np.diff(racks)) + 1
    sources[firsts[1:]] = firsts[:-1]
    return Tree(sources, racks)


def racks_in_turn(fleet: Fleet) -> Nodes:
    """The racks of nodes that are numbered rack by rack."""
    return np.concatenate(([OUTSIDE], np.arange(fleet.hosts) * fleet.racks // fleet.hosts))


def rates(plan: Tree, links: Links, dead: Flags) -> Numbers:
    """Bytes a second at which each node is fed: all rise together until something that they cross is full.

    That is max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), with one more limit:
    nobody is fed faster than his source is. The origin has infinity, the dead 0.
    """
    nodes, racks = len(plan.sources), int(plan.racks.max()) + 1
    capacities = np.concatenate((links.up, links.down, np.full(2 * racks, links.rack), [np.inf]))
    nothing = len(capacities) - 1
    leaves = np.where(plan.crosses & (plan.sources != 0), 2 * nodes + plan.racks[plan.sources], nothing)
    enters = np.where(plan.crosses, 2 * nodes + racks + plan.racks, nothing)
    crossed = np.stack((plan.sources, nodes + np.arange(nodes), leaves, enters))
    found = np.zeros(nodes)
    rising = (plan.sources != NOBODY) & ~dead
    left = capacities.copy()
    level = 0.0
    while rising.any():
        users = np.bincount(crossed[:, rising].ravel(), minlength=len(left))
        step = float((left[users > 0] / users[users > 0]).min())
        level += step
        found[rising] = level
        left[:nothing] -= step * users[:nothing]
        full = (users > 0) & (left <= _JUST * capacities)
        full[nothing] = False
        rising &= ~plan.below(rising & full[crossed].any(axis=0))
    found[0] = np.inf
    return found


def finish(plan: Tree, links: Links, size: int, chunk_bytes: int) -> Numbers:
    """Seconds until each node has the file, where nobody dies."""
    had = np.zeros(len(plan.sources))
    had[0] = size
    return _run(plan, rates(plan, links, had < 0), size, chunk_bytes, had, 0.0)


def finish_after_deaths(
    plan: Tree, links: Links, size: int, chunk_bytes: int, dead: Flags, died: float, mended: float
) -> Numbers:
    """The same where some nodes die ``died`` seconds after the start, and their orphans are fed again ``mended`` after.

    Infinity for the dead; where ``mended`` is infinite, for all below them too.
    """
    undisturbed = finish(plan, links, size, chunk_bytes)
    if not dead.any():
        return undisturbed
    lost = dead & (undisturbed > died)
    if not np.isfinite(mended):
        return np.where(plan.below(dead) & (undisturbed > died), np.inf, undisturbed)
    fed = rates(plan, links, np.zeros(len(dead), np.bool_))
    had = _had(plan, fed, size, chunk_bytes, mended)
    stuck = _had(plan, fed, size, chunk_bytes, died)
    below = plan.below(dead)
    for node in np.flatnonzero(below):
        source = plan.sources[node]
        had[node] = stuck[node] if dead[node] or dead[source] else min(had[node], had[source])
    whole = plan.without(dead)
    again = _run(whole, rates(whole, links, dead), size, chunk_bytes, had, mended)
    return np.where(lost, np.inf, np.where(had >= size, undisturbed, again))


def _run(plan: Tree, fed: Numbers, size: int, chunk_bytes: int, had: Numbers, start: float) -> Numbers:
    """Seconds until each node has all, from ``start`` on, when it has its first ``had`` bytes; infinity where unfed.

    Nobody is fed faster than his source is. So a node waits for its source at most once: where the source itself went
    on after a gap. Of each node ``resumed`` and ``after`` are when and behind which byte it went on for the last time.
    """
    resumed, after = np.full(len(fed), start), had.copy()
    ends = np.full(len(fed), np.inf)
    ends[0] = start
    for node in np.flatnonzero(fed)[1:]:
        source = plan.sources[node]
        if had[source] > had[node]:
            ends[node] = start + (size - had[node]) / fed[node]
        if source:
            comes = resumed[source] + min(size, chunk_bytes) / fed[source]
            late = comes + (size - after[source]) / fed[node]
            if had[source] <= had[node] or late > ends[node]:
                resumed[node], after[node], ends[node] = comes, after[source], late
    return ends


def _had(plan: Tree, fed: Numbers, size: int, chunk_bytes: int, at: float) -> Numbers:
    """Bytes of whole chunks that each node has ``at`` so many seconds after the start, where nobody dies."""
    begins, had = np.zeros(len(fed)), np.full(len(fed), float(size))
    for node in range(1, len(fed)):
        source = plan.sources[node]
        begins[node] = begins[source] + (min(size, chunk_bytes) / fed[source] if source else 0.0)
        received = max(0.0, at - begins[node]) * fed[node]
        had[node] = size if received >= size else (received / chunk_bytes + _JUST) // 1 * chunk_bytes
    return had
