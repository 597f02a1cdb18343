"""A cap on a rate: the token bucket, pure, its clock given."""

from __future__ import annotations

from dataclasses import dataclass

BURST_SECONDS = 0.05
"""What may pass at once, in seconds of the rate: so little that a second's average stays within 5 % of the cap."""
_NOTHING = 1e-6
"""Of a burst: too little to wait for, as the clock's numbers are no finer."""


@dataclass(slots=True)
class Bucket:
    """``rate`` units a second may pass, in the long run; BURST_SECONDS of them at once after a pause. Rate above 0."""

    rate: float
    tokens: float = 0.0
    at: float = 0.0
    """When the tokens were counted last, in seconds of the clock that ``take`` is given."""

    def take(self, amount: float, now: float) -> float:
        """Takes ``amount`` and returns 0, or takes nothing and returns how many seconds to wait before asking again.

        What is larger than a burst passes when the bucket is full, and leaves a debt behind.
        """
        most = self.rate * BURST_SECONDS
        self.tokens = min(most, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = now
        needed = min(amount, most)
        if needed - self.tokens > most * _NOTHING:
            return (needed - self.tokens) / self.rate
        self.tokens -= amount
        return 0.0
