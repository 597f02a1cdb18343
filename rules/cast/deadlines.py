"""The failure clock of a request: when a second source is asked, when the first one is put aside, and for how long.

The peer's scheduler calls ``verdict`` for its requests every few tens of milliseconds. Times are seconds of any one
monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LEAST_SECONDS = 0.150
"""No request is late before this: a switch's full buffer and a busy host's scheduler take tens of milliseconds."""
MEDIANS = 4
"""A request is late when it shows no progress for so many of the usual times of a whole chunk."""

WAIT, HEDGE, ABANDON = 0, 1, 2

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0


def deadline_seconds(median_chunk_seconds: float) -> float:
    """How long a request may show no progress. The median is over recent chunks; 0 while there is none."""
    return max(LEAST_SECONDS, MEDIANS * median_chunk_seconds)


def verdict(now: float, asked: float, last_progress: float, deadline: float, hedged: bool) -> int:
    """WAIT, HEDGE (ask a second source for the chunk, once) or ABANDON (cancel, and quarantine the source).

    Silence for one deadline hedges; so does a chunk that is on its way for two, however steadily it trickles. Silence
    for two deadlines abandons. ``last_progress`` is the time of the last byte, or ``asked`` where none came. For an
    import it is given as ``asked`` too: a second one would double the load on the uplink that lets the first trickle.
    """
    silent = now - last_progress
    if silent >= 2 * deadline:
        return ABANDON
    if not hedged and (silent >= deadline or now - asked >= 2 * deadline):
        return HEDGE
    return WAIT


@dataclass(slots=True)
class Quarantine:
    """Who is not asked, by host and incarnation: a host that was started again begins anew.

    Silence costs a second, twice as long each further time up to 30 s. A chunk that did not match its hash is never
    forgiven to that incarnation.
    """

    _until: dict[tuple[str, int], float] = field(default_factory=dict)
    _times: dict[tuple[str, int], int] = field(default_factory=dict)

    def silent(self, host: str, incarnation: int, now: float) -> float:
        """Puts it aside; returns until when."""
        who = (host, incarnation)
        times = self._times[who] = self._times.get(who, 0) + 1
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(times - 1, 10))
        self._until[who] = max(self._until.get(who, 0.0), now + seconds)
        return self._until[who]

    def corrupt(self, host: str, incarnation: int) -> None:
        self._until[host, incarnation] = float("inf")

    def holds(self, host: str, incarnation: int, now: float) -> bool:
        return now < self._until.get((host, incarnation), float("-inf"))
