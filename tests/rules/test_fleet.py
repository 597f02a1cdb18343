"""How a group is, from what its members last said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.fleet import FORGET_SECONDS, SILENT_SECONDS, GroupState, Member, current, health

NOW = 1_000_000.0
LIVING = Member(host="a", incarnation="1", started=NOW - 500, spoke=NOW - 2, heard=NOW - 2, state="running")
QUIET = replace(LIVING, incarnation="2", host="b", spoke=NOW - 100, heard=NOW - 100)


def test_a_group_whose_members_all_speak_is_as_they_say() -> None:
    assert health([LIVING, replace(LIVING, incarnation="3")], NOW).state is GroupState.running
    found = health([LIVING, replace(LIVING, incarnation="3", state="degraded", reason="S3 is away")], NOW)
    assert (found.state, found.reason, found.present) == (GroupState.degraded, "S3 is away", 2)


def test_a_group_of_which_nobody_is_heard_is_silent_since_the_last_word() -> None:
    found = health([QUIET, replace(QUIET, incarnation="3", host="c", heard=NOW - 60)], NOW)

    assert (found.state, found.since, found.silent) == (GroupState.silent, NOW - 60, 2)
    assert found.reason == "nothing heard from b, c"


def test_a_group_of_which_one_is_silent_is_degraded_and_names_its_host() -> None:
    found = health([LIVING, QUIET], NOW)

    assert (found.state, found.reason) == (GroupState.degraded, "1 of 2 members silent, on b")


def test_silence_begins_only_after_several_missed_words() -> None:
    almost = replace(QUIET, heard=NOW - SILENT_SECONDS + 0.1)

    assert health([almost], NOW).state is GroupState.running
    assert health([replace(almost, heard=NOW - SILENT_SECONDS)], NOW).state is GroupState.silent


def test_who_said_goodbye_is_not_missed() -> None:
    stopped = replace(QUIET, state="stopped")

    assert health([stopped], NOW) == health([stopped], NOW + 1000)
    assert health([stopped], NOW).state is GroupState.stopped
    assert health([LIVING, stopped], NOW).present == 1


def test_a_start_on_the_same_host_replaces_one_silent_member_and_not_two() -> None:
    again = replace(QUIET, incarnation="3", started=NOW - 90, spoke=NOW - 1, heard=NOW - 1)
    other = replace(QUIET, incarnation="4", spoke=NOW - 99, heard=NOW - 99)

    assert health([QUIET, again], NOW).state is GroupState.running
    assert health([QUIET, replace(again, host="c")], NOW).state is GroupState.degraded
    assert (health([QUIET, other, again], NOW).present, health([QUIET, other, again], NOW).silent) == (2, 1)


def test_a_member_that_was_there_before_replaces_nobody() -> None:
    colleague = replace(QUIET, incarnation="3", started=NOW - 400, spoke=NOW - 1, heard=NOW - 1)

    assert health([QUIET, colleague], NOW).silent == 1


def test_a_host_that_is_gone_for_good_is_forgotten() -> None:
    assert current([replace(QUIET, heard=NOW - FORGET_SECONDS)], NOW) == []


def test_a_word_that_this_release_does_not_know_is_trouble() -> None:
    assert health([replace(LIVING, state="halted")], NOW).state is GroupState.degraded


@given(
    st.lists(
        st.builds(
            Member,
            host=st.sampled_from("abc"),
            incarnation=st.uuids().map(str),
            started=st.floats(NOW - 4000, NOW),
            spoke=st.floats(NOW - 4000, NOW),
            heard=st.floats(NOW - 4000, NOW),
            state=st.sampled_from([*GroupState, "halted"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_the_order_in_which_members_are_named_does_not_matter(members: list[Member], data: st.DataObject) -> None:
    found = health(members, NOW)

    assert health(data.draw(st.permutations(members)), NOW) == found
    assert 0 <= found.silent <= found.present <= len(members)


@pytest.mark.parametrize("state", GroupState)
def test_the_states_are_ordered_from_the_best_to_the_worst(state: GroupState) -> None:
    assert GroupState.running.severity <= state.severity <= GroupState.silent.severity
