"""How the time that jobs have a slot compares with what they were expected to cost."""

from __future__ import annotations

_KEEPS = 0.98
"""Of what was known, at each job: the last fifty or so say most."""
_DOUBT_SECONDS = 10.0
"""So long it was as expected, before any job was seen."""


class Pace:
    """``value``: expected GPU seconds done in a second of a slot. 1 where costs are right."""

    __slots__ = ("_cost", "_held")

    def __init__(self) -> None:
        self._cost = _DOUBT_SECONDS
        self._held = _DOUBT_SECONDS

    @property
    def value(self) -> float:
        return self._cost / self._held

    def saw(self, cost_seconds: float, held_seconds: float) -> None:
        """A job was done that had its slot for so long."""
        self._cost = _KEEPS * self._cost + cost_seconds
        self._held = _KEEPS * self._held + max(held_seconds, 0.001)
