"""Chunks that did not come along the tree: which of them this host fetches from outside its rack, and from where.

Of the scheduler's thread only. Somebody on the way died, is slow or left; the rack's hosts take their turns by rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.consumers.peer.bytes.fetch import COPY
from headwater.consumers.peer.swarm.others import Others, Who
from headwater.consumers.peer.swarm.tree import Tree
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.fallback import is_due, may_import

_WINDOW = 64
"""So many of the lowest chunks are looked after at a time: ranks that wait for their turn do not all run ahead."""
_RACKS = 3
"""So many of the racks that have a chunk are asked for it before the origin is."""
_PATIENT_SECONDS = 10.0
"""A rack-mate that imports a chunk, lives, and has not brought it for so long, is not waited for any more."""
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
        self._coming: dict[int, tuple[str, float]] = {}
        self._handed_at = float("-inf")

    def handed(self, now: float) -> None:
        """Another rack had something for this one: the tree works."""
        self._handed_at = now

    def tried(self, chunk: int, who: Who) -> None:
        """It was asked, and did not bring the chunk."""
        self._tried.setdefault(chunk, set()).add(who)

    def coming(self, chunk: int, mate: str, now: float) -> None:
        """A rack-mate imports the chunk."""
        self._coming[chunk] = (mate, now)

    def found(self, chunk: int) -> None:
        """The chunk is here."""
        self._since.pop(chunk, None)
        self._tried.pop(chunk, None)
        self._again.pop(chunk, None)
        self._coming.pop(chunk, None)

    def is_coming(self, chunk: int, now: float) -> bool:
        """A rack-mate that can be relied on imports it, and not for too long."""
        mate, since = self._coming.get(chunk, ("", 0.0))
        return bool(mate) and self._others.rank((mate,)) > 0 and now - since < _PATIENT_SECONDS

    def due(
        self, lacking: list[int], asked: Bits, offered: set[int], tree: Tree, quiet: float, deadline: float, now: float
    ) -> list[int]:
        """The chunks that this host may import now, of those that are ``lacking`` in the whole rack, the lowest first.

        ``asked``: under way to this host. ``offered``: those that somebody outside said it has, to this host.
        ``quiet``: for how many deadlines nothing new was heard of.
        """
        told, claimed, orphaned = self._told(), self._others.claimed(), self._orphaned(now)
        kept = lacking[:_WINDOW]
        self._since = {chunk: self._since[chunk] for chunk in kept if chunk in self._since}
        found = []
        for chunk in kept:
            handed = chunk in offered or bool(claimed[chunk])
            if not is_due(chunk, self._others.highest, handed or orphaned or bool(told[chunk]), quiet):
                continue
            since = self._since.setdefault(chunk, now)
            if asked[chunk] or now < self._again.get(chunk, now) or self.is_coming(chunk, now):
                continue
            rank = self._others.rank(tree.branch(chunk).ahead)
            if (handed and rank == 0) or may_import(rank, now - since, deadline):
                found.append(chunk)
        return found

    def way_in(self, chunk: int, tree: Tree, deadline: float, now: float) -> Who | None:
        """Whom to ask for it; None: nobody now. Everybody in turn, and from the beginning after a deadline."""
        tried = self._tried.setdefault(chunk, set())
        since = self._since.get(chunk, now)
        if now - since < _PATIENT_SECONDS:  # racks that come all at once are fed by each other, though it takes a while
            since = max(since, self._handed_at)
        deadlines = max(0.0, now - since) / deadline
        ways = [who for who in self._ways(chunk, tree, deadlines, now) if who not in tried]
        for who in ways:
            other = self._others.find(who)
            if other is None or now >= other.busy_until:
                return who
        if not ways:  # not even somebody who is busy
            tried.clear()
            self._again[chunk] = now + deadline
        return None

    def _ways(self, chunk: int, tree: Tree, deadlines: float, now: float) -> Iterator[Who]:
        """Neighbours that said they have it, the importers above, racks that have it, the origin, the copy.

        The origin is left to the first rack of the tree for a deadline, to those below it for one more a level: what
        one of them gets goes to the others along the tree.
        """
        others, branch = self._others, tree.branch(chunk)
        outside = [one.host for one in others.by_host.values() if one.rack != others.rack and one.has[chunk]]
        having = [host for host in outside if host != self._origin]
        racks = [rack for rack, bits in self.summaries.items() if bits[chunk] and rack in tree.racks][:_RACKS]
        inside = [host for rack in racks for host in tree.importers(chunk, rack)[:2]]
        origin = [self._origin] if deadlines >= branch.depth else []
        for host in (*having, *branch.above, *inside, *origin):
            other = others.by_host.get(host)
            if other is not None and not other.silent and not others.quarantine.holds(*other.who, now):
                yield other.who
        patient = deadlines >= _COPY_DEADLINES + branch.depth
        if self.copied and (patient or self._orphaned(now)) and not others.quarantine.holds(COPY, 0, now):
            yield COPY, 0

    def _orphaned(self, now: float) -> bool:
        """The origin is not there: what nobody has comes from the copy, or not at all."""
        origin = self._others.by_host.get(self._origin)
        return origin is None or origin.silent or self._others.quarantine.holds(*origin.who, now)

    def _told(self) -> Bits:
        told = np.zeros(self._others.count, np.bool_)
        for bits in self.summaries.values():
            told |= bits
        for other in self._others.by_host.values():
            if other.rack != self._others.rack:
                told |= other.has
        return told
