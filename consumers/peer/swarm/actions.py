"""What the rules of a cast want done: the swarm decides it, the peer does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headwater.consumers.peer.swarm.others import Who
from headwater.schemas.cast_records import CastEventKind


@dataclass(eq=False, slots=True)
class Flight:
    """A chunk on its way here. ``outside``: from another rack, the origin or the copy.

    ``progress``: when its last byte came, and ``received``: how many did; who does the fetch keeps both up to date.
    """

    chunk: int
    source: Who
    outside: bool
    asked: float
    progress: float
    received: int = 0
    announced: bool = False
    hedged: bool = False
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """Fetch the chunk from its source."""

    flight: Flight


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Cancel the fetch: its chunk came from elsewhere, or its source shows no sign of life."""

    flight: Flight


@dataclass(frozen=True, slots=True)
class Tell:
    """Say to these hosts that this one has the chunk, or that it is on its way here from outside (``coming``)."""

    hosts: tuple[str, ...]
    chunk: int
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something for cast.events."""

    kind: CastEventKind
    reason: str
    about: Who | None = None
    chunks: tuple[int, ...] = ()


Action: TypeAlias = Ask | GiveUp | Tell | Note
