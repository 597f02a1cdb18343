"""Counts of a stretch, from readings that come in any order, twice, or not at all."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.rates import BUCKET_SECONDS, Counts, Reading, bucket_of, counted

DONE = st.lists(st.integers(0, 1000), min_size=1, max_size=40)
"""What a process did in each bucket since its start."""


def readings(done: list[int], started_in: int = 0) -> list[Reading]:
    """One at the end of each bucket, as a process that started at the first one's beginning would say it."""
    return [
        Reading(started_in + number, (number + 1) * BUCKET_SECONDS, Counts(records=total, bytes=2 * total))
        for number, total in enumerate(accumulate(done))
    ]


def test_a_known_sequence_gives_the_sums_that_arithmetic_gives() -> None:
    said = readings([5, 7, 0, 4], started_in=100)

    assert counted(said, 100, 104).records == 16
    assert counted(said, 101, 103) == Counts(records=7, bytes=14)
    assert counted(said, 103, 104).records == 4
    assert counted(said, 104, 110) == Counts(), "it said nothing after that"
    assert counted(said, 90, 100) == Counts(), "it had not started"


@given(DONE, st.lists(st.integers(0, 45), min_size=2, max_size=8))
def test_over_adjoining_stretches_nothing_is_counted_twice_or_left_out(done: list[int], bounds: list[int]) -> None:
    said, bounds = readings(done), [0, *sorted(bounds), 50]

    parts = [counted(said, first, end).records for first, end in pairwise(bounds)]

    assert sum(parts) == sum(done)
    assert parts == [sum(done[first:end]) for first, end in pairwise(bounds)]


@given(DONE, st.data())
def test_readings_that_come_twice_or_in_another_order_change_nothing(done: list[int], data: st.DataObject) -> None:
    said = readings(done)
    first = data.draw(st.integers(0, len(done)))
    end = data.draw(st.integers(first, len(done) + 1))
    jumbled = data.draw(st.permutations([*said, *data.draw(st.lists(st.sampled_from(said), max_size=20))]))

    assert counted(jumbled, first, end) == counted(said, first, end)


@given(DONE, st.data())
def test_what_lost_readings_hid_shows_in_the_next_one_and_is_never_more_than_was_done(
    done: list[int], data: st.DataObject
) -> None:
    said = readings(done)
    heard = data.draw(st.lists(st.sampled_from(said), unique=True))
    first = data.draw(st.integers(0, len(done)))

    assert counted(heard, 0, len(done)).records <= sum(done)
    if said[-1] in heard and any(reading.bucket < first for reading in heard):
        before = max((reading for reading in heard if reading.bucket < first), key=lambda reading: reading.bucket)
        assert counted(heard, first, len(done)).records == (
            sum(done) - before.counts.records if first < len(done) else 0
        )


def test_a_start_within_the_stretch_counts_from_nothing() -> None:
    just_started = [Reading(12, 5.0, Counts(records=40)), Reading(13, 15.0, Counts(records=100))]

    assert counted(just_started, 10, 14).records == 100


def test_a_count_from_before_the_first_reading_is_not_taken_for_work_of_now() -> None:
    long_at_work = [Reading(12, 90_000.0, Counts(records=7_000_000)), Reading(13, 90_010.0, Counts(records=7_000_030))]

    assert counted(long_at_work, 10, 14).records == 30


def test_a_log_whose_clock_was_set_back_takes_nothing_back() -> None:
    said = [
        Reading(10, 10.0, Counts(records=10)),
        Reading(12, 30.0, Counts(records=30)),
        Reading(11, 40.0, Counts(records=50)),
    ]

    assert counted(said, 12, 13).records == 0
    assert counted(said, 11, 13).records == 40


def test_a_bucket_begins_with_its_first_moment() -> None:
    assert [bucket_of(at) for at in (0.0, 9.999, 10.0, 1_796_022_540.0)] == [0, 0, 1, 179_602_254]
