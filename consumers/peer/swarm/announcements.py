"""Whom a peer tells of its chunks: its rack, and, of those that it imported, the importers of the racks below."""

from __future__ import annotations

from collections import deque

from headwater.consumers.peer.swarm.actions import Flight, Tell
from headwater.consumers.peer.swarm.others import Others
from headwater.consumers.peer.swarm.tree import Tree

_RECENT = 64
"""So many are repeated to an importer that takes another's place."""


class Announcements:
    """Of the host ``me``. Of the scheduler's thread only."""

    def __init__(self, me: str, others: Others) -> None:
        self._me, self._others = me, others
        self._recent: deque[tuple[int, frozenset[str]]] = deque(maxlen=_RECENT)

    def coming(self, chunk: int) -> list[Tell]:
        """This host imports the chunk now: nobody else of the rack need do it."""
        mates = tuple(mate.host for mate in self._others.mates)
        return [Tell(mates, chunk, coming=True)] if mates else []

    def here(self, chunk: int, flight: Flight, tree: Tree) -> list[Tell]:
        """The chunk came, and is proven."""
        source = flight.source[0]
        mates = tuple(mate.host for mate in self._others.mates if mate.host != source)
        tells = [Tell(mates, chunk)] if mates else []
        branch = tree.branch(chunk)
        if flight.outside or not self._others.rank(branch.ahead):
            importers = frozenset((*branch.below, *branch.parents)) - {source, self._me}
            self._recent.append((chunk, importers))
            if importers:
                tells.append(Tell(tuple(sorted(importers)), chunk))
        return tells

    def again(self, tree: Tree) -> list[Tell]:
        """The tree changed: who imports now may not have heard of what another was told just before."""
        tells = []
        for place, (chunk, informed) in enumerate(self._recent):
            new = frozenset(tree.branch(chunk).below) - informed - {self._me}
            if new:
                tells.append(Tell(tuple(sorted(new)), chunk))
                self._recent[place] = (chunk, informed | new)
        return tells
