"""A cap on a rate: the token bucket, pure, its clock given, with a line in which nobody is overtaken."""

from __future__ import annotations

from dataclasses import dataclass

BURST_SECONDS = 0.05
"""What may pass at once, in seconds of the rate: so little that a second's average stays within 5 % of the cap."""
_NOTHING = 1e-6
"""Of a burst: too little to wait for, as the clock's numbers are no finer."""


@dataclass(slots=True)
class Bucket:
    """``rate`` units a second may pass, in the long run; BURST_SECONDS of them at once after a pause. Rate above 0.

    Who wants something to pass takes a place in the line, and asks how long it is until its turn; it asks again where
    the rate changed.
    """

    rate: float
    placed: float = 0.0
    """Units for which places were given."""
    allowed: float = 0.0
    """Units that may have passed until ``at``."""
    at: float = 0.0

    def place(self, amount: float, now: float) -> float:
        """A place behind all others. An amount larger than a burst passes when the burst is full, and leaves a debt."""
        self._go_to(now)
        self.allowed = min(self.allowed, self.placed + self._burst)
        place = self.placed + min(amount, self._burst)
        self.placed += amount
        return place

    def wait(self, place: float, now: float) -> float:
        """Seconds until its turn, 0 where it has come."""
        self._go_to(now)
        missing = place - self.allowed
        return missing / self.rate if missing > self._burst * _NOTHING else 0.0

    def change(self, rate: float, now: float) -> None:
        """Places stay; what passed until now stays counted by the old rate."""
        self._go_to(now)
        self.rate = rate

    @property
    def _burst(self) -> float:
        return self.rate * BURST_SECONDS

    def _go_to(self, now: float) -> None:
        self.allowed += max(0.0, now - self.at) * self.rate
        self.at = now
