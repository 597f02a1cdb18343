from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.deadlines import ABANDON, HEDGE, WAIT, Quarantine, deadline_seconds, verdict

times = st.floats(0, 100)


def test_a_deadline_is_four_medians_and_never_under_150_ms() -> None:
    assert [deadline_seconds(median) for median in (0, 0.0375, 0.1, 2)] == [0.15, 0.15, 0.4, 8]


def test_a_silent_request_is_hedged_once_and_then_abandoned() -> None:
    seen = [verdict(now / 100, 0.0, 0.0, 0.15, hedged=now > 15) for now in range(32)]
    assert seen == [WAIT] * 15 + [HEDGE] + [WAIT] * 14 + [ABANDON] * 2


def test_a_trickle_is_hedged_and_never_abandoned() -> None:
    assert verdict(0.29, 0.0, 0.28, 0.15, hedged=False) == WAIT
    assert verdict(0.30, 0.0, 0.29, 0.15, hedged=False) == HEDGE
    assert verdict(90.0, 0.0, 89.9, 0.15, hedged=True) == WAIT


@given(times, times, times, st.floats(0.15, 10), st.booleans())
def test_no_request_with_recent_progress_is_abandoned(now, asked, progress, deadline, hedged) -> None:
    if now - progress < 2 * deadline:
        assert verdict(now, asked, progress, deadline, hedged) != ABANDON
    if now - progress < deadline and now - asked < 2 * deadline:
        assert verdict(now, asked, progress, deadline, hedged) == WAIT


def test_quarantine_grows_with_each_silence_and_is_of_one_incarnation() -> None:
    quarantine = Quarantine()
    assert not quarantine.holds("a", 1, 0.0)
    assert [quarantine.silent("a", 1, now) for now in (0.0, 10.0, 20.0)] == [1.0, 12.0, 24.0]
    assert quarantine.holds("a", 1, 23.9)
    assert not quarantine.holds("a", 1, 24.0)
    assert not quarantine.holds("a", 2, 23.9)
    assert max(quarantine.silent("a", 1, 100.0) for _ in range(2000)) == 130.0


def test_a_corrupt_chunk_is_not_forgiven() -> None:
    quarantine = Quarantine()
    quarantine.corrupt("a", 1)
    quarantine.silent("a", 1, 0.0)
    assert quarantine.holds("a", 1, 1e12)
    assert not quarantine.holds("a", 2, 0.0)
