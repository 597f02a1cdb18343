from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headwater.streams.runtime.backoff import full_jitter


@given(st.integers(0, 10_000), st.floats(0.001, 10), st.floats(0.001, 1_000), st.randoms(use_true_random=False))
def test_a_wait_lies_between_nothing_and_the_cap(attempt: int, base: float, most: float, random: Random) -> None:
    seconds = full_jitter(attempt, base_seconds=base, most_seconds=most, random=random)
    assert 0.0 <= seconds <= most
    assert seconds <= base * 2.0 ** min(attempt, 900)


def test_waits_grow_with_the_attempts_and_fill_their_range() -> None:
    random = Random(7)

    def mean(attempt: int) -> float:
        waits = [full_jitter(attempt, base_seconds=1.0, most_seconds=8.0, random=random) for _ in range(4_000)]
        return sum(waits) / len(waits)

    means = [mean(attempt) for attempt in range(6)]
    # A uniform wait below 1, 2, 4, 8, 8, 8 seconds has half of that as its mean.
    assert [round(value * 4) for value in means] == [2, 4, 8, 16, 16, 16]
