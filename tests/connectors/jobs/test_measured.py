from __future__ import annotations

from typing import Any

import pytest

from headwater.connectors.jobs import measured, results
from headwater.connectors.jobs.rows import AttemptId
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.states import JobState


def complete(place: Any, ids: list[AttemptId]) -> list[measured.Ended]:
    told = [results.Result(*id, {"key": "k"}, 3.0) for id in ids]
    with place.jobs.transaction() as transaction:
        return measured.ended(transaction, results.complete(transaction, place.worker, told))


def fail(place: Any, ids: list[AttemptId], code: str) -> list[measured.Ended]:
    told = [
        results.Failure(job=job, epoch=epoch, code=code, message="m", log_tail="", gpu_seconds=2.0)
        for job, epoch in ids
    ]
    with place.jobs.transaction() as transaction:
        return measured.ended(transaction, results.fail(transaction, place.worker, told, FailurePolicy(), lambda: 0.0))


def test_the_wait_of_a_first_claim_is_counted_once(place: Any) -> None:
    granted = place.grant(place.submit(), place.submit())
    place.query("UPDATE jobs SET queued_at = queued_at - interval '100 s'")
    started = place.claim(*granted)
    assert [one.pool for one in started] == ["gpu", "gpu"]
    assert all(100 <= one.waited_seconds < 200 for one in started)
    again = place.claim(*granted)
    assert [one.waited_seconds for one in again] == [None, None], "given again, and not counted again"


def test_a_completed_attempt_is_counted_once_with_what_it_cost(place: Any) -> None:
    place.query("UPDATE pools SET price = 500")
    ids = place.run(place.submit())
    place.query("UPDATE attempts SET claimed_at = claimed_at - interval '50 s'")
    [one] = complete(place, ids)
    assert (one.pool, one.model, one.epoch, one.outcome, one.state) == (
        "gpu", "testcard", 1, "completed", JobState.completed,
    )  # fmt: skip
    assert (one.gpu_seconds, one.amount) == (3.0, 1_500)
    assert 50 <= one.ran_seconds < 100
    assert complete(place, ids) == []


@pytest.mark.parametrize(("code", "state"), [("node", JobState.queued), ("invalid_input", JobState.failed)])
def test_a_failed_attempt_says_whether_its_job_goes_on(place: Any, code: str, state: JobState) -> None:
    ids = place.run(place.submit())
    [one] = fail(place, ids, code)
    assert (one.outcome, one.code, one.state, one.amount) == ("failed", code, state, 0)
    assert fail(place, ids, code) == []


def test_an_attempt_of_another_is_not_counted(place: Any) -> None:
    ids = place.run(place.submit())
    assert complete(place, [AttemptId(job, epoch + 1) for job, epoch in ids]) == []
