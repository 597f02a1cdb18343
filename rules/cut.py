"""What a dataset version takes: for each path its newest verified state, and of a rename both halves or neither.

A path has recorded states above the clock that the last version holds (its *committed* clock). A version moves it to
one of them, or leaves it. Two rules:

1. only a verified state is taken (its bytes were read back and equal their hash, or it has no content);
2. a rename is two states with one clock, at the old path (deleted) and at the new one (renamed). A version holds one
   of the two paths at or above that clock only if it holds the other there too. So a file that moved is never missing
   from both of its places, nor in both of them.

Of all choices that keep both rules there is a newest one, in which every path is at least as new as in any other
(of two such choices, taking the newer state of each path is such a choice as well). ``newest_consistent`` finds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headwater.rules.identity import Clock

Place = tuple[str, bytes]
"""A source and a path below its root."""


@dataclass(frozen=True, slots=True)
class State:
    """One recorded state of a path, above its committed clock. ``other``: where the other half of its rename is."""

    clock: Clock
    verified: bool
    other: Place | None = None


def newest_consistent(pending: Mapping[Place, Sequence[State]]) -> dict[Place, Clock]:
    """The clock that the next version takes each path to; paths that it leaves as they are do not appear.

    ``pending`` holds each path's states above its committed clock, oldest first. A half of a rename whose other half
    is not among the pending states is free: the last version holds that path at a newer state already.

    Every state is dropped at most once and each drop is looked at once: linear in the number of states.
    """
    left = {place: list(states) for place, states in pending.items()}
    bounds: deque[tuple[Place, Clock]] = deque()
    for place in left:
        _drop_from(left, place, None, bounds)
    while bounds:
        place, bound = bounds.popleft()
        _drop_from(left, place, bound, bounds)
    return {place: states[-1].clock for place, states in left.items() if states}


def _drop_from(
    left: dict[Place, list[State]], place: Place, bound: Clock | None, bounds: deque[tuple[Place, Clock]]
) -> None:
    """Drop the path's states from ``bound`` on, and then those on top that are not verified.

    Each dropped half of a rename bounds its other half: that path must stay below the same clock.
    """
    states = left.get(place, [])
    while states and (not states[-1].verified or (bound is not None and states[-1].clock >= bound)):
        dropped = states.pop()
        if dropped.other is not None:
            bounds.append((dropped.other, dropped.clock))


class Reason(StrEnum):
    """Why a version holds a path at an older state than the source had at the cut, or not at all.

    The agent's own reasons (busy, unreadable, dead-lettered) are free text and stand beside these.
    """

    verification = "waiting for verification"
    rename = "waiting for the other half of a rename"


def needs_base(files_in_base: int, rows_since: int) -> bool:
    """Should this version have a full manifest? Yes when the deltas since the last one exceed half of it.

    So whoever reads a version reads one full manifest and at most half as many rows again, and all full manifests
    after the first together hold at most about twice the rows of the deltas.
    """
    return rows_since > files_in_base / 2
