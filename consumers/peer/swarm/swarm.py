"""What one peer does in one cast: which chunk it asks of whom, when it gives up on somebody, and whom it tells.

No I/O and no clock: events come in with their time, actions go out, and the same events give the same actions. Of the
scheduler's thread only. The rules themselves are in ``rules/cast``; here is the state that they are asked about.

    others say   place, gone, back, told, holds, summary        what other hosts are, and have
    manifest     hashed, copied                                 what can be asked for, and the copy in S3
    fetches      ended                                          how each request ended
    act                                                         everything that is to be done now
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from headwater.consumers.peer.bytes.fetch import Outcome
from headwater.consumers.peer.swarm.actions import Action, Flight
from headwater.consumers.peer.swarm.announcements import Announcements
from headwater.consumers.peer.swarm.failures import Failures
from headwater.consumers.peer.swarm.flights import Flights
from headwater.consumers.peer.swarm.handed import Handed
from headwater.consumers.peer.swarm.lost import Lost
from headwater.consumers.peer.swarm.others import Others, Who
from headwater.consumers.peer.swarm.pace import Pace
from headwater.consumers.peer.swarm.tree import Tree, racks_of
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.choice import NONE, endgame_chunk, in_flight, next_chunk
from headwater.rules.cast.deadlines import ABANDON, HEDGE

_IMPORTS = 4
"""Chunks on their way from outside: the hosts of a rack share its uplink, and what comes first is handed on first."""
_STARVED_SECONDS = 0.5
"""A peer that did not come to look for so long has not seen what came meanwhile: nobody is late for that."""
_REVIEW_SECONDS = 0.05
"""How often late requests and lost chunks are looked for."""
_ORIGIN_RACK = "\0"
"""Where the origin stands here, wherever it is: it hands chunks to the tree, and is no rack-mate of anybody."""


class Swarm:
    """``me`` in ``rack``, in the cast ``epoch`` of ``count`` chunks that ``origin`` began.

    ``slots``: requests under way at most. ``chance`` gives numbers in [0, 1). ``now`` is seconds of any one monotonic
    clock, everywhere.
    """

    def __init__(
        self,
        epoch: int,
        me: Who,
        rack: str,
        origin: str,
        count: int,
        *,
        slots: int,
        chance: Callable[[], float],
        now: float,
    ) -> None:
        self.epoch, self.me, self.rack, self.origin, self.count = epoch, me, rack, origin, count
        self.had: Bits = np.zeros(count, np.bool_)
        self.others = Others(rack, count)
        self.flights = Flights(count, slots, self.others)
        self.tree = Tree(epoch, me[0], rack, {})
        self.lost = Lost(self.others, origin)
        self._chance = chance
        self._rack_slots = max(1, slots - _IMPORTS)
        self._hashed = 0
        self._first = 0
        self._slow: frozenset[str] = frozenset()
        self._handed = Handed(self.others)
        self._announcements = Announcements(me[0], self.others)
        self._pace = Pace()
        self._failures = Failures(self.others, self.lost, self._handed, self._pace, now)
        self._actions: list[Action] = []
        self._reviewed = self._last_news = now

    # What others are and have

    def place(self, hosts: Sequence[tuple[str, int, str]], slow: frozenset[str], now: float) -> None:
        """Everybody who takes part now, this host and the origin too: host, incarnation, rack. ``slow`` imports not."""
        others = [
            (host, incarnation, _ORIGIN_RACK if host == self.origin else rack)
            for host, incarnation, rack in hosts
            if host != self.me[0]
        ]
        self.others.place(others, now)
        self._slow = slow
        changed = racks_of(hosts, self.origin, slow)
        if changed != self.tree.racks:
            self.tree = Tree(self.epoch, self.me[0], self.rack, changed)
            self._actions += self._announcements.again(self.tree)

    def gone(self, who: Who, now: float) -> None:
        """It died, or says nothing any more: nobody waits for it. ``place`` without it comes later, or ``back``."""
        if (other := self.others.find(who)) is not None:
            if other.rack == self.rack:
                other.silent = True
            else:  # no link is kept with it on which it would come back
                self.others.quarantine.silent(*who, now)
            self.others.review(now)
        self._actions += self.flights.give_up(source=who)

    def back(self, who: Who, now: float) -> None:
        """It is there (again)."""
        if (other := self.others.find(who)) is not None and other.silent:
            other.silent = False
            self.others.review(now)

    def told(self, who: Who, chunks: Iterable[int], now: float) -> None:
        """HAVE: it has these. From outside the rack it means that this host is to import them."""
        other = self.others.find(who)
        if other is None:
            return
        for chunk in chunks:
            if not 0 <= chunk < self.count:
                continue
            if self.others.gain(other, chunk):
                self._last_news = now
            if other.rack != self.rack and not self.had[chunk]:
                self._handed.add(chunk, who)
                if other.host != self.origin:
                    self.lost.handed(now)

    def coming(self, who: Who, chunks: Iterable[int], now: float) -> None:
        """A rack-mate imports these."""
        if (other := self.others.find(who)) is not None and other.rack == self.rack:
            for chunk in chunks:
                self.lost.coming(chunk, other.host, now)

    def holds(self, who: Who, bits: Bits, now: float, *, anew: bool = False) -> None:
        """It has all of these. ``anew``: and, as far as this host knew of others, no longer those."""
        other = self.others.find(who)
        if other is None or len(bits) != self.count:
            return
        if anew:
            self.others.forget(other, bits)
        elif self.others.hold(other, bits):
            self._last_news = now

    def summary(self, rack: str, bits: Bits) -> None:
        """What a rack has together."""
        if len(bits) == self.count and rack != self.rack:
            self.lost.summaries[rack] = bits

    # The manifest

    def hashed(self, count: int) -> None:
        """The first so many chunks have their hash, and may be asked for."""
        self._hashed = count

    def copied(self) -> None:
        """There is a copy in S3 from now on."""
        self.lost.copied = True

    # This host's own chunks

    def restore(self, chunk: int) -> None:
        """It was here from an earlier run, and is proven."""
        self._gain(chunk, None)

    @property
    def complete(self) -> bool:
        return self._first >= self.count

    @property
    def rack_complete(self) -> bool:
        """This host and all live hosts of its rack have every chunk."""
        return self.complete and all(mate.has.all() for mate in self.others.mates)

    def missing(self) -> list[int]:
        return [int(chunk) for chunk in np.flatnonzero(~self.had)]

    def ended(self, flight: Flight, outcome: Outcome, seconds: float, reason: str, now: float) -> None:
        """A request ended. Raises ValueError for one that is not under way."""
        self.flights.end(flight)
        if outcome is Outcome.verified:
            self._pace.took(seconds, outside=flight.outside)
            self._last_news = now
            if not self.had[flight.chunk]:
                self._gain(flight.chunk, flight)
        elif outcome is not Outcome.cancelled:
            self._actions += self._failures.ended(flight, outcome, reason, self._chance(), now)

    def _gain(self, chunk: int, flight: Flight | None) -> None:
        self.had[chunk] = True
        while self._first < self.count and self.had[self._first]:
            self._first += 1
        self._handed.drop(chunk)
        self.lost.found(chunk)
        self._actions += self.flights.give_up(chunk=chunk)
        if flight is not None:
            self._actions += self._announcements.here(chunk, flight, self.tree)

    # What is to be done

    def act(self, now: float) -> list[Action]:
        """Everything that is to be done now. Who does it calls this after events, and at least every 50 ms."""
        if (since := now - self._reviewed) >= _REVIEW_SECONDS:
            self._reviewed = now
            self.others.review(now)
            if since < _STARVED_SECONDS:
                self._look_for_late(now)
            if not self.complete:
                self._import_lost(now)
                self._name_stall(now)
        if not self.complete:
            self._import_handed(now)
            self._ask_mates(now)
        actions, self._actions = self._actions, []
        return actions

    def _import_handed(self, now: float) -> None:
        """What the tree, or the origin, handed to this host."""
        for chunk in sorted(self._handed.chunks()):
            if self._imports_enough:
                return
            if self.flights.asked[chunk] or self.others.holders[chunk] or chunk >= self._hashed:
                continue
            if self.lost.is_coming(chunk, now) or self.others.rank(self.tree.branch(chunk).ahead):
                continue  # it is another's, whose turn passes to this host where it does not come
            if (who := self._handed.source(chunk, now)) is not None:
                self._ask(chunk, who, now, outside=True)

    @property
    def _imports_enough(self) -> bool:
        return self.flights.full or len(self.flights) - self.flights.from_rack >= _IMPORTS

    def _ask_mates(self, now: float) -> None:
        reach = min(self._hashed, self.others.highest + 1)
        had, asked = self.had[:reach], self.flights.asked[:reach].copy()
        slots = min(self._rack_slots, in_flight(self.me[0] in self._slow))
        while self.flights.from_rack < slots and not self.flights.full:
            chunk = next_chunk(had, asked, self.others.able(reach, now), self._first, self._chance())
            if chunk == NONE:
                self._ask_twice(now)
                return
            asked[chunk] = 1  # whether it can be asked for now or not
            if (who := self._mate_for(chunk, now)) is not None:
                self._ask(chunk, who, now, outside=False)

    def _ask_twice(self, now: float) -> None:
        """At the end, when everything is on its way, the last ones also from a second source."""
        if self._hashed == self.count and not self.flights.full:
            chunk = endgame_chunk(self.had, self.flights.asked, self.others.holders, self._first)
            if chunk != NONE and (who := self._mate_for(chunk, now)) is not None:
                self._ask(chunk, who, now, outside=False)

    def _mate_for(self, chunk: int, now: float) -> Who | None:
        return self.others.choose(chunk, self.flights.sources(chunk), self._slow, self._chance(), now)

    def _import_lost(self, now: float) -> None:
        """Chunks that should be in the rack by now and are not."""
        lacking = np.flatnonzero(~self.had[: self._hashed] & (self.others.holders[: self._hashed] == 0)).tolist()
        deadline = self._pace.deadline(outside=True)
        quiet = (now - self._last_news) / deadline
        for chunk in self.lost.due(
            lacking, self.flights.asked > 0, self._handed.chunks(), self.tree, quiet, deadline, now
        ):
            if self._imports_enough:
                return
            if (who := self.lost.way_in(chunk, self.tree, deadline, now)) is not None:
                self._ask(chunk, who, now, outside=True)

    def _look_for_late(self, now: float) -> None:
        for flight in self.flights:
            if flight.given_up:
                continue
            if flight.outside and flight.received and not flight.announced:
                flight.announced = True
                self._actions += self._announcements.coming(flight.chunk)
            late = self._failures.verdict(flight, now)
            if late == ABANDON:
                self._actions += self._failures.abandoned(flight, now)
                self._actions += self.flights.give_up(source=flight.source)
            elif late == HEDGE and self.flights.asked[flight.chunk] == 1:
                self._hedge(flight, now)

    def _hedge(self, flight: Flight, now: float) -> None:
        who = self._mate_for(flight.chunk, now)
        outside = who is None
        if who is None and flight.outside:
            self.lost.tried(flight.chunk, flight.source)
            who = self.lost.way_in(flight.chunk, self.tree, self._pace.deadline(outside=True), now)
        if who is None or self.flights.full:
            return
        flight.hedged = True
        self._actions += self._failures.hedged(flight, now)
        self._ask(flight.chunk, who, now, outside=outside)

    def _name_stall(self, now: float) -> None:
        quiet, deadline = now - self._last_news, self._pace.deadline(outside=True)
        missing = np.flatnonzero(~self.had[: self._hashed])
        held = int((self.others.holders[missing] > 0).sum())
        self._actions += self._failures.notes.stall(missing.tolist(), held, self._hashed, quiet, deadline, now)

    # The smallest steps

    def _ask(self, chunk: int, who: Who, now: float, *, outside: bool) -> None:
        self._actions.append(self.flights.begin(chunk, who, now, outside=outside))
