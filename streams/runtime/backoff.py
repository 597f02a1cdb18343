"""How long to wait before trying again."""

from __future__ import annotations

from random import Random


def full_jitter(attempt: int, *, base_seconds: float, most_seconds: float, random: Random) -> float:
    """Seconds to wait after the failed ``attempt`` (from 0): uniform between 0 and ``base * 2**attempt``, capped.

    Members that failed together come back spread out: "full jitter" of Brooker, Exponential Backoff And Jitter,
    AWS Architecture Blog, 2015.
    """
    # Beyond 2**32 the cap has long decided, and a float would overflow.
    return random.uniform(0.0, min(most_seconds, base_seconds * 2.0 ** min(attempt, 32)))
