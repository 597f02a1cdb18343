"""The token bucket on a turned clock: what passes in any second, and that nobody waits for more than is needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.bucket import BURST_SECONDS, Bucket


def passed(bucket: Bucket, amounts: list[float], now: float) -> list[tuple[float, float]]:
    """When each amount passed, asked for one after the other."""
    times = []
    for amount in amounts:
        place = bucket.place(amount, now)
        while wait := bucket.wait(place, now):
            now += wait
        times.append((now, amount))
    return times


@given(
    rate=st.floats(1e3, 1e10),
    shares=st.lists(st.floats(1e-4, 2.0), min_size=1, max_size=100),
    start=st.floats(0, 1e6),
)
def test_no_more_than_the_rate_and_one_burst_passes_in_any_stretch(
    rate: float, shares: list[float], start: float
) -> None:
    amounts = [share * rate * BURST_SECONDS for share in shares]
    bucket = Bucket(rate)

    times = passed(bucket, amounts, start)

    for first, (begin, _) in enumerate(times):
        for last in range(first, len(times)):
            stretch = times[last][0] - begin
            allowed = rate * (stretch + BURST_SECONDS) + max(amounts)  # what is larger than a burst leaves a debt
            assert sum(amount for _, amount in times[first : last + 1]) <= allowed * (1 + 1e-6) + 1e-3


@pytest.mark.parametrize("piece", [1e5, 1e6, 2e7])
def test_who_always_wants_more_gets_the_whole_rate(piece: float) -> None:
    bucket = Bucket(625e6)  # 5 Gbit/s
    now = total = 0.0

    while now < 10.0:
        now += bucket.wait(bucket.place(piece, now), now)
        total += piece

    assert total / now == pytest.approx(625e6, rel=0.01)


def test_a_pause_saves_up_no_more_than_a_burst() -> None:
    bucket = Bucket(1000.0)
    assert bucket.wait(bucket.place(1.0, 0.0), 0.0) > 0  # empty at first

    assert bucket.wait(bucket.place(50.0, 3600.0), 3600.0) == 0
    assert bucket.wait(bucket.place(1.0, 3600.0), 3600.0) == pytest.approx(0.001)


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = Bucket(1000.0)
    assert bucket.wait(bucket.place(50.0, 100.0), 100.0) == 0

    assert bucket.wait(bucket.place(1.0, 50.0), 50.0) > 0


def test_nobody_is_overtaken_and_a_new_rate_holds_for_those_who_wait() -> None:
    bucket = Bucket(1000.0)
    places = [bucket.place(10.0, 0.0) for _ in range(3)]
    assert [bucket.wait(place, 0.0) for place in places] == pytest.approx([0.01, 0.02, 0.03])

    bucket.change(100.0, 0.01)

    assert [bucket.wait(place, 0.01) for place in places] == pytest.approx([0.0, 0.1, 0.2])
    assert bucket.wait(bucket.place(1.0, 0.01), 0.01) == pytest.approx(0.21)
