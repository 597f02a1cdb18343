"""The views at a moment: a pure function of what was said before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.records import PartitionLag, Stage, Telemetry
from headwater.streams.views.picture import Row, expired, newer, picture

T0 = 1_796_000_400
"""A full minute, and so the beginning of a bucket."""


def said(group: str, number: int, at: int, records: int, **more: Any) -> tuple[int, Telemetry]:
    """The bucket of a word, and the word."""
    word = Telemetry(
        group=group, stage=Stage.uploaded, host="a", incarnation=f"{group}-1", number=number,
        started_us=T0 * 1_000_000, sent_us=at * 1_000_000, state="running", reason="",
        records=records, content_bytes=0, retries=0, dead_letters=0, waiting=0,
    )  # fmt: skip
    return at // 10, replace(word, **more)


def table(words: list[tuple[int, Telemetry]]) -> dict[tuple[str, int], Telemetry]:
    """The rows that stay when words are filed in this order."""
    rows: dict[tuple[str, int], Telemetry] = {}
    for bucket, word in words:
        key = (word.incarnation, bucket)
        rows[key] = newer(rows.get(key), word)
    return rows


def rows(words: list[tuple[int, Telemetry]]) -> list[Row]:
    return [Row(bucket, word) for (_, bucket), word in table(words).items()]


WORDS = st.lists(
    st.tuples(st.sampled_from(["upload-files", "verify"]), st.integers(0, 120), st.integers(0, 50)), max_size=40
).map(
    lambda drawn: [
        said(group, number, T0 + 5 * number, 100 * number, waiting=waiting) for group, number, waiting in drawn
    ]
)


@given(WORDS, st.integers(0, 80), st.data())
def test_words_that_come_twice_and_in_any_order_give_the_same_views(
    words: list[tuple[int, Telemetry]], later: int, data: st.DataObject
) -> None:
    # A number is said once; what differs in a repetition would be a lie.
    words = list({(word.group, word.number): (bucket, word) for bucket, word in words}.values())
    again = data.draw(st.lists(st.sampled_from(words), max_size=10)) if words else []
    jumbled = data.draw(st.permutations([*words, *again]))

    assert picture(rows(jumbled), T0 // 10 + later) == picture(rows(words), T0 // 10 + later)


@given(WORDS, st.integers(0, 60))
def test_what_comes_later_does_not_change_what_was_told_before(words: list[tuple[int, Telemetry]], later: int) -> None:
    end = T0 // 10 + later
    before = [(bucket, word) for bucket, word in words if bucket < end]

    assert picture(rows(words), end) == picture(rows(before), end)


@given(WORDS, st.integers(0, 90), st.integers(0, 30))
def test_rows_that_are_forgotten_are_not_missed_by_any_view_that_may_still_be_told(
    words: list[tuple[int, Telemetry]], later: int, repeated: int
) -> None:
    end = T0 // 10 + later
    all_rows = rows(words)
    gone = expired(all_rows, end)

    kept = [row for row in all_rows if row not in gone]

    for at in (end, end - repeated):
        assert picture(kept, at) == picture(all_rows, at)


def test_rows_do_not_pile_up() -> None:
    all_rows = rows([said("upload-files", number, T0 + 5 * number, number) for number in range(2_000)])
    end = T0 // 10 + 1_000

    kept = len(all_rows) - len(expired(all_rows, end))

    assert kept <= 62
    assert len(expired(all_rows, end + 500)) == len(all_rows), "an hour and more after the last word"


def test_a_backlog_that_grows_is_slow_and_names_the_partition_that_is_furthest_behind() -> None:
    words = []
    for number in range(61):
        at = T0 + 5 * number
        lags = (
            PartitionLag(topic="sync.objects", partition=2, records=10, seconds=3.0),
            PartitionLag(topic="sync.objects", partition=7, records=5, seconds=40.0),
        )
        words.append(
            said("verify", number, at, 10 * number, waiting=50 * number, oldest_us=(at - 40) * 1_000_000, lags=lags)
        )

    [group] = picture(rows(words), (T0 + 300) // 10).groups

    assert (group.verdict, group.slowest, group.waiting) == ("slow", "sync.objects/7", 2_950)
    assert group.drain_seconds is None
    assert group.minute_records == 2
    assert group.oldest_us == (T0 + 295 - 40) * 1_000_000


def test_a_backlog_that_nobody_moves_is_stalled_and_one_without_a_member_is_stopped() -> None:
    still = [
        said("verify", number, T0 + 5 * number, 1_000, waiting=70, oldest_us=(T0 - 100) * 1_000_000)
        for number in range(60)
    ]

    [stalled] = picture(rows(still), (T0 + 300) // 10).groups
    [silent] = picture(rows(still), (T0 + 400) // 10).groups

    assert (stalled.verdict, stalled.state) == ("stalled", "running")
    assert silent.state == "silent"


def test_retries_and_dead_letters_of_the_last_five_minutes_are_counted() -> None:
    words = [
        said("verify", 0, T0 + 5, 0, retries=3, dead_letters=1),
        said("verify", 50, T0 + 250, 0, retries=10, dead_letters=1),
        said("verify", 100, T0 + 500, 0, retries=11, dead_letters=2),
    ]

    [group] = picture(rows(words), (T0 + 510) // 10).groups

    assert (group.retries, group.dead_letters) == (8, 1)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.other])
def test_every_stage_is_told_also_where_nobody_works(stage: Stage) -> None:
    assert stage in [view.stage for view in picture([], T0 // 10).stages]
