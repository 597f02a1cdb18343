"""The requests of a peer in one cast that are under way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.consumers.peer.swarm.actions import Action, Ask, Flight, GiveUp
from headwater.consumers.peer.swarm.others import Others, Who
from headwater.rules.cast.choice import Counts


class Flights:
    """At most ``slots`` at a time. ``asked``: by chunk how many there are. Of the scheduler's thread only."""

    def __init__(self, count: int, slots: int, others: Others) -> None:
        self.asked: Counts = np.zeros(count, np.int16)
        self._slots, self._others = slots, others
        self._all: list[Flight] = []

    def __iter__(self) -> Iterator[Flight]:
        return iter([*self._all])

    def __len__(self) -> int:
        return len(self._all)

    @property
    def full(self) -> bool:
        return len(self._all) >= self._slots

    @property
    def from_rack(self) -> int:
        return sum(not flight.outside for flight in self._all)

    def sources(self, chunk: int) -> set[Who]:
        """Those that were asked for the chunk."""
        return {flight.source for flight in self._all if flight.chunk == chunk}

    def begin(self, chunk: int, source: Who, now: float, *, outside: bool) -> Ask:
        """A request more."""
        flight = Flight(chunk, source, outside, now, now)
        self._all.append(flight)
        self.asked[chunk] += 1
        if (other := self._others.find(source)) is not None:
            other.load += 1
        return Ask(flight)

    def end(self, flight: Flight) -> None:
        """It ended. Raises ValueError where it is not under way."""
        self._all.remove(flight)
        self.asked[flight.chunk] -= 1
        if (other := self._others.find(flight.source)) is not None:
            other.load -= 1

    def give_up(self, *, chunk: int | None = None, source: Who | None = None) -> list[Action]:
        """All that are for the chunk, or of the source. They end a moment later."""
        given_up: list[Action] = []
        for flight in self._all:
            if not flight.given_up and (flight.chunk == chunk or flight.source == source):
                flight.given_up = True
                given_up.append(GiveUp(flight))
        return given_up
