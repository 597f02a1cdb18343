"""What a request that brings nothing says about its source: busy, mistaken, silent, or a liar."""

from __future__ import annotations

from headwater.consumers.peer.bytes.fetch import Outcome
from headwater.consumers.peer.swarm.actions import Flight, Note
from headwater.consumers.peer.swarm.handed import Handed
from headwater.consumers.peer.swarm.lost import Lost
from headwater.consumers.peer.swarm.notes import Notes
from headwater.consumers.peer.swarm.others import Others
from headwater.consumers.peer.swarm.pace import Pace
from headwater.rules.cast.deadlines import verdict
from headwater.schemas.cast_records import CastEventKind

_REFUSED_SECONDS = 1.0
"""Who serves nothing of this cast, perhaps not yet, is asked again after it."""
_LEAST_BUSY_SECONDS, _MOST_BUSY_SECONDS = 0.02, 0.25
"""How long a source that is busy is left alone: an eighth of the time that a chunk takes, within these."""


class Failures:
    """Of one peer in one cast. Of the scheduler's thread only."""

    def __init__(self, others: Others, lost: Lost, handed: Handed, pace: Pace, now: float) -> None:
        self._others, self._lost, self._handed, self._pace = others, lost, handed, pace
        self.notes = Notes(now)

    def ended(self, flight: Flight, outcome: Outcome, reason: str, chance: float, now: float) -> list[Note]:
        """A request ended, and the chunk is not here."""
        source, notes = flight.source[0], []
        if outcome is Outcome.corrupt:
            self._others.quarantine.corrupt(*flight.source)
            notes = self.notes.of(CastEventKind.blamed, f"chunk {flight.chunk} of {source}: {reason}", flight, now)
        elif outcome is Outcome.cut_off:
            self._others.quarantine.silent(*flight.source, now)
            notes = self.notes.of(CastEventKind.stalled, f"{source} broke off: {reason}", flight, now)
        elif (other := self._others.find(flight.source)) is not None:
            if outcome is Outcome.not_here:
                self._others.lose(other, flight.chunk)
            usual = self._pace.seconds(outside=flight.outside)
            pause = max(_LEAST_BUSY_SECONDS, min(_MOST_BUSY_SECONDS, usual / 8)) * (0.5 + chance)
            other.busy_until = now + (_REFUSED_SECONDS if outcome is Outcome.refused else pause)
        if outcome is not Outcome.busy:
            self._pass_over(flight)
        self._others.review(now)
        return notes

    def verdict(self, flight: Flight, now: float) -> int:
        """As ``deadlines.verdict``. A second import of a chunk that trickles in would load the uplink that is slow."""
        trickles = not flight.outside and self._pace.known(outside=False)
        deadline = self._pace.deadline(outside=flight.outside)
        return verdict(now, flight.asked if trickles else now, flight.progress, deadline, flight.hedged)

    def abandoned(self, flight: Flight, now: float) -> list[Note]:
        """Its source shows no sign of life."""
        self._others.quarantine.silent(*flight.source, now)
        self._pass_over(flight)
        self._others.review(now)
        stood = f"chunk {flight.chunk} from {flight.source[0]} stood {now - flight.progress:.2f} s"
        return self.notes.of(CastEventKind.stalled, stood, flight, now)

    def hedged(self, flight: Flight, now: float) -> list[Note]:
        """A second source is asked for its chunk."""
        late = f"chunk {flight.chunk} from {flight.source[0]} is late"
        return self.notes.of(CastEventKind.hedged, late, flight, now)

    def _pass_over(self, flight: Flight) -> None:
        """Others are asked for the chunk first."""
        self._lost.tried(flight.chunk, flight.source)
        self._handed.withdraw(flight.chunk, flight.source)
