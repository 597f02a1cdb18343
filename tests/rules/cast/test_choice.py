from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast import choice
from headwater.rules.cast.choice import NONE, admits, endgame_chunk, next_chunk, source_of

chances = st.floats(0, 1, exclude_max=True)


@st.composite
def chunks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 90))
    had = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    asked = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    holders = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    return np.array(had, np.bool_), np.array(asked, np.int16), np.array(holders, np.int16)


@st.composite
def mates(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 12))
    flags = [draw(st.lists(st.booleans(), min_size=count, max_size=count)) for _ in range(3)]
    load = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    holds, usable, slow = (np.array(flag, np.bool_) for flag in flags)
    return holds, usable, slow, np.array(load, np.int16)


@given(chunks(), chances)
def test_the_next_chunk_is_one_of_the_lowest_that_can_be_asked_for(found, chance: float) -> None:
    had, asked, holders = found
    askable = np.flatnonzero(~had & (asked == 0) & (holders > 0))
    chosen = next_chunk(had, asked, holders, 0, chance)
    if len(askable) == 0:
        assert chosen == NONE
    else:
        assert chosen in askable[: choice.WINDOW]


def test_every_chunk_of_the_window_is_chosen_by_some_chance() -> None:
    had, asked, holders = np.zeros(50, np.bool_), np.zeros(50, np.int16), np.ones(50, np.int16)
    chosen = {next_chunk(had, asked, holders, 0, number / 100) for number in range(100)}
    assert chosen == set(range(choice.WINDOW))


@given(mates(), chances)
def test_a_source_holds_the_chunk_is_usable_and_has_the_least_load(found, chance: float) -> None:
    holds, usable, slow, load = found
    source = source_of(holds, usable, slow, load, chance)
    healthy = bool((holds & ~slow).any())
    allowed = holds & usable & (~slow if healthy else True)
    share = {0: 8, 1: 8, 2: 4}.get(int((~slow).sum()), 3)
    allowed &= load < share
    if not allowed.any():
        assert source == NONE
    else:
        assert allowed[source]
        assert load[source] == load[allowed].min()


def test_a_slow_holder_is_asked_only_where_nobody_else_holds_the_chunk() -> None:
    load, usable = np.zeros(3, np.int16), np.ones(3, np.bool_)
    slow = np.array([True, False, False])
    assert source_of(np.array([True, False, False]), usable, slow, load, 0.9) == 0
    busy = np.array([True, False, False])
    assert source_of(np.array([True, True, False]), busy, slow, load, 0.9) == NONE


def test_a_full_window_comes_from_three_sources_where_there_are_three() -> None:
    everybody, load = np.ones(3, np.bool_), np.zeros(3, np.int16)
    for number in range(choice.IN_FLIGHT):
        load[source_of(everybody, everybody, ~everybody, load, number / 9)] += 1
    assert sorted(load) == [2, 3, 3]


@given(chunks())
def test_the_endgame_begins_when_all_is_under_way_and_duplicates_little(found) -> None:
    had, asked, holders = found
    chosen = endgame_chunk(had, asked, holders, 0)
    missing = ~had
    if chosen == NONE:
        ready = missing & (asked == 1) & (holders > 1)
        assert (missing & (asked == 0)).any() or (missing & (asked > 1)).sum() >= 2 or not ready.any()
    else:
        assert not (missing & (asked == 0)).any()
        assert missing[chosen]
        assert asked[chosen] == 1
        assert holders[chosen] > 1
        assert (missing & (asked > 1)).sum() < 2


def test_no_third_chunk_is_under_way_twice() -> None:
    had, holders = np.zeros(4, np.bool_), np.full(4, 2, np.int16)
    assert endgame_chunk(had, np.array([2, 1, 1, 1], np.int16), holders, 0) == 1
    assert endgame_chunk(had, np.array([2, 2, 1, 1], np.int16), holders, 0) == NONE


@pytest.mark.parametrize(
    ("crosses", "uploads", "of_chunk", "served"),
    [
        (False, 0, 0, True),
        (False, choice.UPLOADS - 1, 1, True),
        (False, choice.UPLOADS, 0, False),
        (False, 0, choice.UPLOADS_PER_CHUNK, False),
        (True, choice.UPLOADS_ACROSS - 1, 0, True),
        (True, choice.UPLOADS_ACROSS, 0, False),
    ],
)
def test_a_source_serves_at_once_or_says_busy(crosses: bool, uploads: int, of_chunk: int, served: bool) -> None:
    assert admits(crosses, uploads, of_chunk) is served
