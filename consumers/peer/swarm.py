"""What one peer does in one cast: which chunk it asks of whom, when it gives up on somebody, and whom it tells.

No I/O and no clock: events come in with their time, actions go out, and the same events give the same actions. Of the
scheduler's thread only. The rules themselves are in ``rules/cast``; here is the state that they are asked about.

    others say   place, gone, back, told, holds, summary        what other hosts are, and have
    manifest     hashed, copied                                 what can be asked for, and the copy in S3
    fetches      ended                                          how each request ended
    act                                                         everything that is to be done now
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import numpy as np

from headwater.consumers.peer.actions import Action, Ask, Flight, GiveUp, Note, Tell
from headwater.consumers.peer.fetch import COPY, Outcome
from headwater.consumers.peer.lost import Lost
from headwater.consumers.peer.others import Other, Others, Who
from headwater.consumers.peer.tree import Tree
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.choice import IN_FLIGHT, NONE, endgame_chunk, next_chunk, source_of
from headwater.rules.cast.deadlines import ABANDON, HEDGE, deadline_seconds, verdict
from headwater.schemas.cast_records import CastEventKind

_REVIEW_SECONDS = 0.05
"""How often late requests and lost chunks are looked for."""
_RECENT = 64
"""The median chunk time is over so many chunks, and so many announcements are repeated to a new importer."""
_ORIGIN_RACK = "\0"
"""Where the origin stands here, wherever it is: it hands chunks to the tree, and is no rack-mate of anybody."""
_STALL_SECONDS = 5.0
"""A cast that stands still is named so often."""


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
        self.flights: list[Flight] = []
        self.others = Others(rack, count)
        self.tree = Tree(epoch, me[0], rack, {})
        self.lost = Lost(self.others, origin)
        self._slots, self._chance = slots, chance
        self._rack_slots = min(IN_FLIGHT, slots - max(1, slots // 3)) if slots > 1 else 1
        self._asked = np.zeros(count, np.int16)
        self._hashed = 0
        self._first = 0
        self._slow: frozenset[str] = frozenset()
        self._offers: dict[int, list[Who]] = {}
        self._took: deque[float] = deque(maxlen=_RECENT)
        self._median = 0.0
        self._announced: deque[tuple[int, frozenset[str]]] = deque(maxlen=_RECENT)
        self._noted: dict[tuple[CastEventKind, Who], float] = {}
        self._actions: list[Action] = []
        self._reviewed = self._last_news = self._stall_named = now

    # What others are and have

    def place(self, hosts: Sequence[tuple[str, int, str]], slow: frozenset[str], now: float) -> None:
        """Everybody who takes part now, this host and the origin too: host, incarnation, rack. ``slow`` imports not."""
        others = [
            (host, incarnation, _ORIGIN_RACK if host == self.origin else rack)
            for host, incarnation, rack in hosts
            if host != self.me[0]
        ]
        self.others.place(others, now)
        racks: dict[str, list[str]] = {}
        slow_racks: dict[str, list[str]] = {}
        for host, _, rack in hosts:
            if host != self.origin:
                (slow_racks if host in slow else racks).setdefault(rack, []).append(host)
        for rack, all_slow in slow_racks.items():
            racks.setdefault(rack, all_slow)  # a rack of slow hosts only has no better importers
        self._slow = slow
        changed = {rack: tuple(sorted(names)) for rack, names in racks.items()}
        if changed != self.tree.racks:
            self.tree = Tree(self.epoch, self.me[0], self.rack, changed)
            self._tell_new_importers()

    def gone(self, who: Who, now: float) -> None:
        """It died, or says nothing any more: nobody waits for it. ``place`` without it comes later, or ``back``."""
        if (other := self.others.find(who)) is not None:
            if other.rack == self.rack:
                other.silent = True
            else:  # no link is kept with it on which it would come back
                self.others.quarantine.silent(*who, now)
            self.others.review(now)
        for flight in self.flights:
            if flight.source == who:
                self._give_up(flight)

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
            if other.rack != self.rack:
                offers = self._offers.setdefault(chunk, []) if not self.had[chunk] else []
                if who not in offers:
                    offers.append(who)

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

    @property
    def deadline(self) -> float:
        """Seconds without progress after which a request is late."""
        return deadline_seconds(self._median)

    def ended(self, flight: Flight, outcome: Outcome, seconds: float, reason: str, now: float) -> None:
        """A request ended. Raises ValueError for one that is not under way."""
        self.flights.remove(flight)
        self._asked[flight.chunk] -= 1
        other = self.others.find(flight.source)
        if other is not None:
            other.load -= 1
        if outcome is Outcome.verified:
            self._took.append(seconds)
            self._median = median(self._took)
            self._last_news = now
            if not self.had[flight.chunk]:
                self._gain(flight.chunk, flight)
        elif outcome is not Outcome.cancelled:
            self._failed(flight, other, outcome, reason, now)

    def _failed(self, flight: Flight, other: Other | None, outcome: Outcome, reason: str, now: float) -> None:
        self.lost.tried(flight.chunk, flight.source)
        if outcome is Outcome.corrupt:
            self.others.quarantine.corrupt(*flight.source)
            self._note(CastEventKind.blamed, f"chunk {flight.chunk} of {flight.source[0]}: {reason}", flight, now)
        elif outcome is Outcome.cut_off:
            self.others.quarantine.silent(*flight.source, now)
            self._note(CastEventKind.stalled, f"{flight.source[0]} broke off: {reason}", flight, now)
        elif other is not None:
            if outcome is Outcome.not_here:
                self.others.lose(other, flight.chunk)
            pause = max(0.01, min(0.25, self._median / 4))
            other.busy_until = now + (self.deadline if outcome is Outcome.refused else pause * (0.5 + self._chance()))
        if outcome is not Outcome.busy:
            self._withdraw(flight.chunk, flight.source)
        self.others.review(now)

    def _gain(self, chunk: int, flight: Flight | None) -> None:
        self.had[chunk] = True
        while self._first < self.count and self.had[self._first]:
            self._first += 1
        self._offers.pop(chunk, None)
        self.lost.found(chunk)
        for other in self.flights:
            if other.chunk == chunk:
                self._give_up(other)
        if flight is not None:
            self._announce(chunk, flight)

    # What is to be done

    def act(self, now: float) -> list[Action]:
        """Everything that is to be done now. Who does it calls this after events, and at least every 50 ms."""
        if now - self._reviewed >= _REVIEW_SECONDS:
            self._reviewed = now
            self.others.review(now)
            self._look_for_late(now)
            if not self.complete:
                self._import_lost(now)
                self._name_stall(now)
        if not self.complete:
            self._import_offered(now)
            self._ask_mates(now)
        actions, self._actions = self._actions, []
        return actions

    def _import_offered(self, now: float) -> None:
        """What the tree, or the origin, handed to this host."""
        for chunk in [*self._offers]:
            if self._asked[chunk] or self.others.holders[chunk] or chunk >= self._hashed:
                continue
            if self.others.rank(self.tree.branch(chunk).ahead):
                continue  # it is another's, whose turn passes to this host where it does not come
            for who in self._offers[chunk]:
                other = self.others.find(who)
                if other is not None and self.others.usable(other, now) and len(self.flights) < self._slots:
                    self._ask(chunk, who, now, outside=True)
                    break

    def _ask_mates(self, now: float) -> None:
        mates = self.others.mates
        reach = min(self._hashed, self.others.highest + 1)
        while sum(not flight.outside for flight in self.flights) < self._rack_slots and len(self.flights) < self._slots:
            able = np.zeros(self.count, np.int16)[:reach]
            for mate in mates:
                if mate.counted and now >= mate.busy_until:
                    able += mate.has[:reach]
            chunk = next_chunk(self.had[:reach], self._asked[:reach], able, self._first, self._chance())
            if chunk == NONE and self._hashed == self.count:
                chunk = endgame_chunk(self.had, self._asked, self.others.holders, self._first)
            if chunk == NONE or (who := self._mate_for(chunk, mates, now)) is None:
                return
            self._ask(chunk, who, now, outside=False)

    def _mate_for(self, chunk: int, mates: list[Other], now: float) -> Who | None:
        asked = {flight.source for flight in self.flights if flight.chunk == chunk}
        holds = np.array([mate.has[chunk] for mate in mates], np.bool_)
        usable = np.array([self.others.usable(mate, now) and mate.who not in asked for mate in mates], np.bool_)
        slow = np.array([mate.host in self._slow for mate in mates], np.bool_)
        load = np.array([mate.load for mate in mates], np.int16)
        chosen = source_of(holds, usable, slow, load, self._chance())
        return None if chosen == NONE else mates[chosen].who

    def _import_lost(self, now: float) -> None:
        """Chunks that should be in the rack by now and are not."""
        quiet = (now - self._last_news) / self.deadline
        asked, offered = self._asked > 0, {*self._offers}
        for chunk in self.lost.due(self.had, asked, self._hashed, self.tree, offered, quiet, self.deadline, now):
            if len(self.flights) >= self._slots:
                return
            if (who := self.lost.way_in(chunk, self.tree, self.deadline, now)) is not None:
                self._ask(chunk, who, now, outside=True)

    def _look_for_late(self, now: float) -> None:
        for flight in [*self.flights]:
            if flight.given_up:
                continue
            late = verdict(now, flight.asked, flight.progress, self.deadline, flight.hedged)
            if late == ABANDON:
                self.others.quarantine.silent(*flight.source, now)
                self.others.review(now)
                self.lost.tried(flight.chunk, flight.source)
                self._withdraw(flight.chunk, flight.source)
                silent = f"{now - flight.progress:.2f} s"
                self._note(
                    CastEventKind.stalled, f"chunk {flight.chunk} from {flight.source[0]} stood {silent}", flight, now
                )
                self._give_up(flight)
            elif late == HEDGE and self._asked[flight.chunk] == 1:
                self._hedge(flight, now)

    def _hedge(self, flight: Flight, now: float) -> None:
        who = self._mate_for(flight.chunk, self.others.mates, now)
        outside = who is None
        if who is None and flight.outside:
            self.lost.tried(flight.chunk, flight.source)
            who = self.lost.way_in(flight.chunk, self.tree, self.deadline, now)
        if who is None or len(self.flights) >= self._slots:
            return
        flight.hedged = True
        self._note(CastEventKind.hedged, f"chunk {flight.chunk} from {flight.source[0]} is late", flight, now)
        self._ask(flight.chunk, who, now, outside=outside)

    def _name_stall(self, now: float) -> None:
        quiet = now - self._last_news
        if quiet < max(_STALL_SECONDS, 2 * self.deadline) or now - self._stall_named < _STALL_SECONDS:
            return
        self._stall_named = now
        missing = np.flatnonzero(~self.had[: self._hashed])
        if len(missing) == 0:
            self._actions.append(Note(CastEventKind.stalled, f"no hash of chunk {self._hashed} yet for {quiet:.0f} s"))
            return
        held = int((self.others.holders[missing] > 0).sum())
        why = f"{held} of them are in the rack" if held else "nobody who answers has them"
        reason = f"nothing came for {quiet:.0f} s; {len(missing)} chunks are missing, {why}"
        self._actions.append(Note(CastEventKind.stalled, reason, None, tuple(int(chunk) for chunk in missing[:100])))

    # The smallest steps

    def _ask(self, chunk: int, who: Who, now: float, *, outside: bool) -> None:
        flight = Flight(chunk, who, outside, now, now)
        self.flights.append(flight)
        self._asked[chunk] += 1
        if (other := self.others.find(who)) is not None:
            other.load += 1
        self._actions.append(Ask(flight))

    def _give_up(self, flight: Flight) -> None:
        if not flight.given_up:
            flight.given_up = True
            self._actions.append(GiveUp(flight))

    def _withdraw(self, chunk: int, who: Who) -> None:
        if chunk in self._offers:
            self._offers[chunk] = [other for other in self._offers[chunk] if other != who]
            if not self._offers[chunk]:
                del self._offers[chunk]

    def _announce(self, chunk: int, flight: Flight) -> None:
        mates = tuple(mate.host for mate in self.others.mates if mate.host != flight.source[0])
        if mates:
            self._actions.append(Tell(mates, chunk))
        branch = self.tree.branch(chunk)
        if not flight.outside and self.others.rank(branch.ahead):
            return
        importers = frozenset((*branch.below, *branch.above[:1])) - {flight.source[0], self.me[0]}
        self._announced.append((chunk, importers))
        if importers:
            self._actions.append(Tell(tuple(sorted(importers)), chunk))

    def _tell_new_importers(self) -> None:
        """The tree changed: who imports now may not have heard of what was announced to another just before."""
        for place, (chunk, informed) in enumerate(self._announced):
            new = frozenset(self.tree.branch(chunk).below) - informed - {self.me[0]}
            if new:
                self._actions.append(Tell(tuple(sorted(new)), chunk))
                self._announced[place] = (chunk, informed | new)

    def _note(self, kind: CastEventKind, reason: str, flight: Flight, now: float) -> None:
        """Each kind once in a while of each source: what repeats itself says nothing new."""
        said = (kind, flight.source)
        if now - self._noted.get(said, -_STALL_SECONDS) >= _STALL_SECONDS:
            self._noted[said] = now
            about = None if flight.source[0] == COPY else flight.source
            self._actions.append(Note(kind, reason, about, (flight.chunk,)))
