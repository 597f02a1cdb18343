from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.rules.jobs.admission import STALE_SECONDS, Admitted, Asked, TooLate, TooLong, admit
from headwater.rules.jobs.board import Board, JobClass, TenantBoard

NOW = 1_000_000_000
SECOND = 1_000_000
ASKED = Asked("a", 0, 10.0)


def a_board(queued: int = 39, slots: int = 4) -> Board:
    """So many jobs of 10 s wait, all of them before what is asked for now."""
    waiting = TenantBoard(1.0, None, slots, 10.0, tuple(range(min(queued, 30))), (JobClass(0, queued),))
    return Board(NOW, slots, 0, 1.0, {"a": waiting})


def test_a_job_is_accepted_with_its_place_and_when_it_starts() -> None:
    answer = admit(a_board(), 1.0, ASKED, None, NOW)
    assert isinstance(answer, Admitted)
    assert answer.standing is not None
    assert (answer.standing.position, answer.standing.starts_in_seconds) == (40, 100.0)


@pytest.mark.parametrize(("board", "age"), [(None, None), (a_board(), STALE_SECONDS + 1), (a_board(), None)])
def test_what_is_not_known_never_refuses(board: Board | None, age: float | None) -> None:
    assert admit(board, age, ASKED, 1.0, NOW) == Admitted(None)


def test_without_workers_everything_is_accepted_and_nobody_knows_when() -> None:
    for queued in range(200):
        answer = admit(a_board(queued, slots=0), 1.0, ASKED, 1.0, NOW)
        assert isinstance(answer, Admitted)
        assert answer.standing is not None
        assert answer.standing.position == queued + 1
        assert answer.standing.starts_in_seconds is None


def test_beyond_what_the_pool_promises_it_says_when_to_come_again_unless_the_owner_rather_waits() -> None:
    assert admit(a_board(), 1.0, ASKED, 70.0, NOW) == TooLong(100.0, 70.0, 30.0)
    assert isinstance(admit(a_board(), 1.0, ASKED, 100.0, NOW), Admitted)
    assert isinstance(admit(a_board(), 1.0, replace(ASKED, deferrable=True), 70.0, NOW), Admitted)


def test_a_deadline_that_the_queue_does_not_allow_is_refused_also_to_who_would_wait() -> None:
    kept = replace(ASKED, deadline_us=NOW + 110 * SECOND)
    missed = replace(ASKED, deadline_us=NOW + 109 * SECOND, deferrable=True)
    assert isinstance(admit(a_board(), 1.0, kept, None, NOW), Admitted)
    assert admit(a_board(), 1.0, missed, None, NOW) == TooLate(110.0, 109.0)


@pytest.mark.parametrize("board", [None, a_board(slots=0)])
def test_a_deadline_that_nothing_could_keep_is_refused_whatever_is_known(board: Board | None) -> None:
    assert admit(board, 1.0, replace(ASKED, deadline_us=NOW + 9 * SECOND), None, NOW) == TooLate(10.0, 9.0)
    assert isinstance(admit(board, 1.0, replace(ASKED, deadline_us=NOW + 11 * SECOND), None, NOW), Admitted)
