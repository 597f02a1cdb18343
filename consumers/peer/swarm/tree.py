"""The tree along which each chunk of a cast crosses from rack to rack, as one view of the hosts makes it.

Worked out chunk by chunk, when somebody asks: racks and hosts are many, and a peer looks at few chunks at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.rules.cast.fallback import offered_to, ways_in
from headwater.rules.cast.importers import Keys, children, key_of, ranked


@dataclass(frozen=True, slots=True)
class Branch:
    """A chunk at one host. ``ahead``: the importers of its rack before it; the first of all fetches it into the rack.

    ``above``: the first two importers of each rack above its own, the nearest first; none where the rack gets it from
    the origin. ``parents``: those of the nearest. ``below``: those of each rack that gets it from this one. The second
    steps in for the first. ``depth``: how many racks are above.
    """

    ahead: tuple[str, ...]
    above: tuple[str, ...]
    parents: tuple[str, ...]
    below: tuple[str, ...]
    depth: int


class Tree:
    """The trees of a cast for ``host`` in ``rack``. ``racks``: the hosts that may import, by rack; never the origin."""

    def __init__(self, epoch: int, host: str, rack: str, racks: Mapping[str, Sequence[str]]) -> None:
        self.racks = {name: tuple(sorted(hosts)) for name, hosts in sorted(racks.items()) if hosts}
        self._host, self._rack = host, rack
        self._names = tuple(self.racks)
        self._rack_keys = _keys(epoch, self._names)
        self._host_keys = {name: _keys(epoch, hosts) for name, hosts in self.racks.items()}
        self._branches: dict[int, Branch] = {}

    def offered(self, chunk: int) -> list[str]:
        """The hosts to which the origin offers a chunk, one after the other where it is not taken."""
        order = self._order(chunk)
        found: list[str] = []
        for attempt in range(2 * len(order)):
            position, rank = offered_to(attempt)
            found += self.importers(chunk, order[position])[rank : rank + 1]
        return found

    def importers(self, chunk: int, rack: str) -> tuple[str, ...]:
        """A rack's importers of a chunk in their order."""
        hosts = self.racks.get(rack, ())
        return tuple(hosts[at] for at in ranked(_one(chunk), self._host_keys[rack])[0]) if hosts else ()

    def branch(self, chunk: int) -> Branch:
        """The chunk as this tree's own host sees it."""
        if (found := self._branches.get(chunk)) is None:
            found = self._branches[chunk] = self._branch(chunk)
        return found

    def _branch(self, chunk: int) -> Branch:
        order, mates = self._order(chunk), self.importers(chunk, self._rack)
        ahead = mates[: mates.index(self._host)] if self._host in mates else mates
        if not mates:  # its rack imports nothing, and is handed nothing: it asks whoever got the chunk first
            first = self.importers(chunk, order[0])[:2] if order else ()
            return Branch(ahead, first, first, (), 1)
        position = order.index(self._rack)
        above = [self.importers(chunk, order[at])[:2] for at in ways_in(position) if at >= 0]
        below = [self.importers(chunk, order[at])[:2] for at in children(position, len(order))]
        return Branch(ahead, _hosts(above), above[0] if above else (), _hosts(below), len(above))

    def _order(self, chunk: int) -> list[str]:
        return [self._names[at] for at in ranked(_one(chunk), self._rack_keys)[0]] if self._names else []


def racks_of(hosts: Sequence[tuple[str, int, str]], origin: str, slow: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The hosts that may import, by rack: slow ones only where all are. ``hosts``: host, incarnation, rack."""
    racks: dict[str, list[str]] = {}
    for host, _, rack in sorted(hosts):
        if host != origin:
            racks.setdefault(rack, []).append(host)
    return {
        rack: tuple(host for host in names if host not in slow) or tuple(names) for rack, names in sorted(racks.items())
    }


def _hosts(racks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(host for hosts in racks for host in hosts)


def _keys(epoch: int, names: Sequence[str]) -> Keys:
    return np.array([key_of(epoch, name) for name in names], np.uint64)


def _one(chunk: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([chunk], np.int64)
