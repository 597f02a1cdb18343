"""Chunks that did not come along the tree: which of them this host fetches from outside its rack, and from where.

Of the scheduler's thread only. Somebody on the way died, is slow or left; the rack's hosts take their turns by rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.consumers.peer.fetch import COPY
from headwater.consumers.peer.others import Others, Who
from headwater.consumers.peer.tree import Tree
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.fallback import is_due, may_import

_WINDOW = 64
"""So many of the lowest chunks are looked after at a time: ranks that wait for their turn do not all run ahead."""
_RACKS = 3
"""So many of the racks that have a chunk are asked for it before the origin is."""
_COPY_DEADLINES = 4
"""An origin that lives but does not serve a chunk is left alone after so long, for the copy in S3."""


class Lost:
    """``summaries``: of other racks what they have together. ``copied``: there is a copy in S3."""

    def __init__(self, others: Others, origin: str) -> None:
        self.summaries: dict[str, Bits] = {}
        self.copied = False
        self._others, self._origin = others, origin
        self._since: dict[int, float] = {}
        self._tried: dict[int, set[Who]] = {}
        self._again: dict[int, float] = {}

    def tried(self, chunk: int, who: Who) -> None:
        """It was asked, and did not bring the chunk."""
        self._tried.setdefault(chunk, set()).add(who)

    def found(self, chunk: int) -> None:
        """The chunk is here."""
        for known in (self._since, self._tried, self._again):
            known.pop(chunk, None)

    def due(
        self,
        had: Bits,
        asked: Bits,
        hashed: int,
        tree: Tree,
        offered: set[int],
        quiet: float,
        deadline: float,
        now: float,
    ) -> list[int]:
        """The chunks that this host may import now, the lowest first.

        ``had`` and ``asked`` (under way) are by chunk; ``offered``: those that somebody outside said it has; ``quiet``:
        for how many deadlines nothing new was heard of.
        """
        lacking = np.flatnonzero(~had[:hashed] & (self._others.holders[:hashed] == 0))[:_WINDOW]
        told = self._told()
        kept = set(lacking.tolist())
        self._since = {chunk: since for chunk, since in self._since.items() if chunk in kept}
        found = []
        for chunk in sorted(kept):
            if not is_due(chunk, self._others.highest, chunk in offered or bool(told[chunk]), quiet):
                continue
            since = self._since.setdefault(chunk, now)
            if asked[chunk] or now < self._again.get(chunk, now):
                continue
            # What nobody handed to this rack is mostly on its way along the tree: one deadline more.
            rank = self._others.rank(tree.branch(chunk).ahead) + (chunk not in offered)
            if may_import(rank, now - since, deadline):
                found.append(chunk)
        return found

    def way_in(self, chunk: int, tree: Tree, deadline: float, now: float) -> Who | None:
        """Whom to ask for it; None: nobody now. Everybody in turn, and from the beginning after a deadline."""
        tried = self._tried.setdefault(chunk, set())
        deadlines = (now - self._since.get(chunk, now)) / deadline
        for who in self._ways(chunk, tree, deadlines):
            other = self._others.find(who)
            asks = not self._others.quarantine.holds(*who, now) if other is None else self._others.usable(other, now)
            if asks and who not in tried:
                return who
        tried.clear()
        self._again[chunk] = now + deadline
        return None

    def _ways(self, chunk: int, tree: Tree, deadlines: float) -> Iterator[Who]:
        """Neighbours that said they have it, the importers above, racks that have it, the origin, the copy.

        The origin is left to the first rack of the tree for a deadline, to those below it for one more a level: what
        one of them gets goes to the others along the tree.
        """
        by_host = self._others.by_host
        mine = self._others.rack
        yield from (other.who for other in by_host.values() if other.rack != mine and other.has[chunk])
        above = tree.branch(chunk).above
        racks = [rack for rack, bits in self.summaries.items() if bits[chunk] and rack in tree.racks][:_RACKS]
        inside = [host for rack in racks for host in tree.importers(chunk, rack)[:2]]
        yield from (by_host[host].who for host in (*above, *inside) if host in by_host)
        origin = by_host.get(self._origin)
        if origin is not None and deadlines >= len(above):
            yield origin.who
        if self.copied and (origin is None or origin.silent or deadlines >= _COPY_DEADLINES + len(above)):
            yield COPY, 0

    def _told(self) -> Bits:
        told = np.zeros(self._others.count, np.bool_)
        for bits in self.summaries.values():
            told |= bits
        for other in self._others.by_host.values():
            if other.rack != self._others.rack:
                told |= other.has
        return told
