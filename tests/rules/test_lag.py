"""The verdict on a partition, over histories that are simulated second by second and over any samples at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.lag import LATE_SECONDS, STALLED_SECONDS, Judgement, Sample, Unread, Verdict, judge

NOW = 1_000_000.0


def history(*, seconds: int, lag: int, produced: int, consumed: int, age: float | None = None) -> Judgement:
    """A partition that had ``lag`` unread records ``seconds`` ago, with steady rates since; held by a member."""
    samples, committed, end = [], 1_000, 1_000 + lag
    for second in range(seconds + 1):
        samples.append(Sample(NOW - seconds + second, committed, end))
        end += produced
        committed = min(committed + consumed, end)
    unread = samples[-1].end - samples[-1].committed
    return judge(samples, Unread(unread, (600.0 if age is None else age) if unread else 0.0), held=True)


def test_a_group_with_nothing_unread_is_ok_even_where_nobody_reads():
    for held in (True, False):
        judged = judge([Sample(NOW, 5, 5)], Unread(0, 0.0), held=held)

        assert (judged.verdict, judged.drain_seconds) == (Verdict.ok, 0.0)


def test_a_large_lag_that_falls_is_ok_and_drains():
    judged = history(seconds=60, lag=100_000, produced=100, consumed=600)

    assert judged.verdict is Verdict.ok
    assert (judged.produced, judged.consumed, judged.growth) == (100.0, 600.0, -500.0)
    assert judged.drain_seconds == pytest.approx(70_000 / 500)


def test_a_lag_that_grows_while_records_age_is_slow_and_never_drains():
    judged = history(seconds=60, lag=100, produced=60, consumed=50)

    assert (judged.verdict, judged.growth, judged.drain_seconds) == (Verdict.slow, 10.0, None)


def test_a_burst_that_has_just_begun_is_ok():
    assert history(seconds=5, lag=0, produced=1_000, consumed=50, age=LATE_SECONDS - 1).verdict is Verdict.ok


def test_a_partition_that_is_held_and_does_not_move_is_stalled_after_a_minute():
    before = history(seconds=int(STALLED_SECONDS) - 1, lag=100, produced=0, consumed=0)
    after = history(seconds=int(STALLED_SECONDS), lag=100, produced=0, consumed=0)

    assert (before.verdict, after.verdict) == (Verdict.ok, Verdict.stalled)
    assert after.idle_longer, "the window may have begun long after the last commit"


def test_a_partition_that_was_empty_for_an_hour_is_not_stalled_by_a_record_of_this_second():
    samples = [Sample(NOW - 3600, 10, 10), Sample(NOW, 10, 11)]

    judged = judge(samples, Unread(1, 0.5), held=True)

    assert (judged.verdict, judged.idle_seconds, judged.idle_longer) == (Verdict.ok, 0.5, False)


def test_a_partition_that_nobody_holds_is_stopped_at_once():
    judged = judge([Sample(NOW, 10, 11)], Unread(1, 0.5), held=False)

    assert (judged.verdict, judged.drain_seconds) == (Verdict.stopped, None)


def test_a_group_that_was_set_back_is_rewound_until_it_is_where_it_was():
    samples = [Sample(NOW - 30, 900, 1000), Sample(NOW - 20, 100, 1000), Sample(NOW, 500, 1000)]

    judged = judge(samples, Unread(500, 50.0), held=True)
    again = judge([*samples, Sample(NOW + 30, 901, 1000)], Unread(99, 80.0), held=True)

    assert judged.verdict is Verdict.rewound
    assert judged.consumed == 400 / 20, "what it was set back by is no negative speed"
    assert again.verdict is Verdict.ok


def test_verdicts_are_ordered_from_the_best_to_the_worst():
    assert sorted(Verdict, key=lambda verdict: verdict.severity) == ["ok", "slow", "rewound", "stalled", "stopped"]


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[Sample], Unread]:
    """Any samples in order of time; ends only grow, commits go anywhere below the end."""
    at, end, samples = NOW, draw(st.integers(0, 50)), []
    for _ in range(draw(st.integers(1, 6))):
        end += draw(st.integers(0, 50))
        samples.append(Sample(at, draw(st.integers(0, end)), end))
        at += draw(st.floats(0.0, 90.0))
    records = draw(st.integers(0, samples[-1].end - samples[-1].committed))
    return samples, Unread(records, draw(st.floats(0.0, 500.0)) if records else 0.0)


@given(windows(), st.booleans())
def test_any_window_has_one_verdict_whose_figures_agree_with_it(window, held):
    samples, unread = window

    judged = judge(samples, unread, held=held)

    if not unread.records:
        assert judged.verdict is Verdict.ok
    if judged.verdict in (Verdict.stopped, Verdict.stalled, Verdict.slow, Verdict.rewound):
        assert unread.records
    assert (judged.verdict is Verdict.stopped) == bool(unread.records and not held)
    if judged.verdict is Verdict.stalled:
        assert judged.idle_seconds >= STALLED_SECONDS
    if judged.verdict is Verdict.slow:
        assert judged.growth is not None
        assert judged.growth > 0
        assert judged.drain_seconds is None
    assert 0 <= judged.idle_seconds <= unread.seconds
    assert judged.consumed is None or judged.consumed >= 0
    if judged.drain_seconds:
        assert judged.growth is not None
        assert judged.growth * judged.drain_seconds == pytest.approx(-unread.records)


@given(windows(), st.booleans(), st.floats(-1e5, 1e5), st.integers(0, 1000))
def test_the_verdict_depends_on_differences_only(window, held, later, further):
    samples, unread = window
    moved = [replace(s, at=s.at + later, committed=s.committed + further, end=s.end + further) for s in samples]

    before, after = judge(samples, unread, held=held), judge(moved, unread, held=held)

    if all(abs(limit - before.idle_seconds) > 1e-3 for limit in (STALLED_SECONDS, LATE_SECONDS)):
        assert before.verdict == after.verdict or before.growth is None or abs(before.growth) < 1e-3


@given(windows(), st.booleans())
def test_progress_now_never_makes_the_verdict_worse(window, held):
    """One more sample, at the same moment, in which everything unread was read."""
    samples, unread = window
    done = replace(samples[-1], committed=samples[-1].end)

    assert (
        judge([*samples, done], Unread(0, 0.0), held=held).verdict.severity
        <= judge(samples, unread, held=held).verdict.severity
    )
