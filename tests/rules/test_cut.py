"""The rule of what a version takes, against the plainest model: try every choice, keep the newest that obeys."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cut import Place, State, needs_base, newest_consistent
from headwater.rules.identity import Clock

Pending = dict[Place, list[State]]


def place(name: str) -> Place:
    return "films", name.encode()


def clock(seq: int) -> Clock:
    return Clock(1, seq)


def obeys(pending: Pending, choice: dict[Place, Clock]) -> bool:
    """Only verified states; of each rename whose halves are both pending, both at or above its clock or neither."""
    for path, states in pending.items():
        for state in states:
            if choice.get(path) == state.clock and not state.verified:
                return False
            if state.other is None or state.other not in pending:
                continue
            if not any(half.clock == state.clock for half in pending[state.other]):
                continue
            here = path in choice and choice[path] >= state.clock
            there = state.other in choice and choice[state.other] >= state.clock
            if here != there:
                return False
    return True


def newest_by_trying(pending: Pending) -> dict[Place, Clock]:
    paths = list(pending)
    options = [[None, *(state.clock for state in pending[path])] for path in paths]
    choices = (
        {path: taken for path, taken in zip(paths, combination, strict=True) if taken is not None}
        for combination in product(*options)
    )
    good = [choice for choice in choices if obeys(pending, choice)]
    # Of two good choices the newer of each path is good too, so the newest of each path together are the answer.
    return {
        path: max(choice[path] for choice in good if path in choice)
        for path in paths
        if any(path in choice for choice in good)
    }


@st.composite
def histories(draw: st.DrawFn) -> Pending:
    """What may happen to four paths in nine steps: written, deleted or renamed, verified or not."""
    pending: Pending = {}
    for seq in range(1, draw(st.integers(1, 9)) + 1):
        here = place(draw(st.sampled_from("abcd")))
        other = place(draw(st.sampled_from("abcd")))
        verified = draw(st.booleans())
        if here == other:
            pending.setdefault(here, []).append(State(clock(seq), verified))
        else:
            pending.setdefault(here, []).append(State(clock(seq), verified, other))
            pending.setdefault(other, []).append(State(clock(seq), True, here))
    return pending


@given(histories())
def test_the_choice_is_the_newest_that_obeys(pending: Pending) -> None:
    assert newest_consistent(pending) == newest_by_trying(pending)


@given(histories())
def test_the_choice_does_not_change_what_it_was_given(pending: Pending) -> None:
    before = {path: list(states) for path, states in pending.items()}

    newest_consistent(pending)

    assert pending == before


def test_a_half_whose_other_half_is_committed_past_the_rename_goes_alone() -> None:
    pending = {place("new"): [State(clock(5), True, place("old"))]}

    assert newest_consistent(pending) == {place("new"): clock(5)}


def test_a_path_is_not_taken_past_its_own_rename_while_the_destination_waits() -> None:
    pending = {
        place("old"): [State(clock(3), True), State(clock(5), True, place("new")), State(clock(6), True)],
        place("new"): [State(clock(5), False, place("old"))],
    }

    assert newest_consistent(pending) == {place("old"): clock(3)}


@pytest.mark.timeout(30)
def test_a_long_chain_that_is_held_back_takes_linear_work() -> None:
    """A file moved 200,000 times, its last move waiting at an unverified place: all of it is held back at once."""
    moves = 200_000
    pending = {place("0"): [State(clock(1), True, place("1"))]}
    for number in range(1, moves):
        arrived = State(clock(number), False, place(f"{number - 1}"))
        left = State(clock(number + 1), True, place(f"{number + 1}"))
        pending[place(f"{number}")] = [arrived, left]
    pending[place(f"{moves}")] = [State(clock(moves), False, place(f"{moves - 1}"))]

    assert newest_consistent(pending) == {}


@pytest.mark.parametrize(("files", "rows", "wanted"), [(10, 5, False), (10, 6, True), (0, 1, True), (0, 0, False)])
def test_a_full_manifest_is_due_when_the_deltas_exceed_half_of_it(files: int, rows: int, wanted: bool) -> None:
    assert needs_base(files, rows) is wanted
