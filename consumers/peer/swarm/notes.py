"""What a peer says of a cast in cast.events: whom it blames or misses, and why it stands still. Never the same twice
within a few seconds: what repeats itself says nothing new."""

from __future__ import annotations

from headwater.consumers.peer.bytes.fetch import COPY
from headwater.consumers.peer.swarm.actions import Flight, Note
from headwater.consumers.peer.swarm.others import Who
from headwater.schemas.cast_records import CastEventKind

_AGAIN_SECONDS = 5.0
_NAMED = 100


class Notes:
    """Of one peer in one cast, which began ``now``."""

    def __init__(self, now: float) -> None:
        self._noted: dict[tuple[CastEventKind, Who], float] = {}
        self._stall_noted = now

    def of(self, kind: CastEventKind, reason: str, flight: Flight, now: float) -> list[Note]:
        """About the source of a request."""
        said = (kind, flight.source)
        if now - self._noted.get(said, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
            return []
        self._noted[said] = now
        about = None if flight.source[0] == COPY else flight.source
        return [Note(kind, reason, about, (flight.chunk,))]

    def stall(
        self, missing: list[int], held: int, hashed: int, quiet: float, deadline: float, now: float
    ) -> list[Note]:
        """About a cast in which nothing came for ``quiet`` seconds.

        ``missing``: chunks that lack here, of the first ``hashed``; ``held`` of them are somewhere in the rack.
        """
        if quiet < max(_AGAIN_SECONDS, 2 * deadline) or now - self._stall_noted < _AGAIN_SECONDS:
            return []
        self._stall_noted = now
        if not missing:
            return [Note(CastEventKind.stalled, f"for {quiet:.0f} s the hash of chunk {hashed} was not said")]
        why = f"{held} of them are in the rack" if held else "nobody who answers has them"
        reason = f"nothing came for {quiet:.0f} s; {len(missing)} chunks are missing, {why}"
        return [Note(CastEventKind.stalled, reason, None, tuple(missing[:_NAMED]))]
