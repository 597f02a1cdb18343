"""How long chunks take here, and so when a request is late: from rack-mates, and, often far slower, from outside."""

from __future__ import annotations

from collections import deque
from statistics import median

from headwater.rules.cast.deadlines import deadline_seconds

_RECENT = 64
_FIRST_SECONDS = 1.0
"""The deadline while no chunk came at all: a narrow link takes its time to bring the first bytes."""


class Pace:
    """Of one peer in one cast."""

    def __init__(self) -> None:
        self._took: dict[bool, deque[float]] = {outside: deque(maxlen=_RECENT) for outside in (False, True)}
        self._median: dict[bool, float] = {}

    def took(self, seconds: float, *, outside: bool) -> None:
        """A chunk came, in so long."""
        self._took[outside].append(seconds)
        self._median[outside] = median(self._took[outside])

    def known(self, *, outside: bool) -> bool:
        """Did a chunk come that way? Else nothing says what is slow."""
        return outside in self._median

    def seconds(self, *, outside: bool) -> float:
        """The usual time of a chunk; of the other kind while none of this came, 0 while none came at all."""
        return self._median.get(outside, self._median.get(not outside, 0.0))

    def deadline(self, *, outside: bool) -> float:
        """Seconds without progress after which a request is late."""
        return deadline_seconds(self.seconds(outside=outside)) if self._median else _FIRST_SECONDS
