"""The one commit point of a job, and the other ends of an attempt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headwater.connectors.jobs import pools, results
from headwater.connectors.jobs.leases import Beat
from headwater.connectors.jobs.results import Ends, Failure, Stopped
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.rules.jobs.failures import FailurePolicy
from tests.any_job import POLICY, Place

OTHER = Holder("w2", 1)


def fail(place: Place, id: AttemptId, code: str = "node", policy: FailurePolicy = POLICY, **more: Any) -> str:
    given: dict[str, Any] = {"message": "a disk is full", "log_tail": "…", "gpu_seconds": 1.5} | more
    with place.jobs.transaction() as transaction:
        told = results.fail(
            transaction, place.worker, [Failure(job=id.job, epoch=id.epoch, code=code, **given)], policy, lambda: 0.5
        )
    return _outcome(told, id)


def release(place: Place, id: AttemptId, checkpoint: dict[str, Any] | None = None) -> str:
    beat = Beat(job=id.job, epoch=id.epoch, step=3, steps=10, stage="generating", checkpoint=checkpoint)
    with place.jobs.transaction() as transaction:
        return _outcome(results.release(transaction, place.worker, [beat]), id)


def stopped(place: Place, id: AttemptId) -> str:
    with place.jobs.transaction() as transaction:
        return _outcome(results.stopped(transaction, place.worker, [Stopped(*id, 2.5)]), id)


def _outcome(told: Ends, id: AttemptId) -> str:
    return str(told[id])


def supersede(place: Place, job: str) -> AttemptId:
    """The lease of its attempt ended, and another worker has it now."""
    place.query("UPDATE jobs SET state = 'queued' WHERE job = %s", job)
    place.query("DELETE FROM leases WHERE job = %s", job)
    place.query("UPDATE attempts SET ended_at = now(), outcome = 'lease_lost' WHERE job = %s", job)
    place.register(OTHER)
    (second,) = place.grant(job, worker=OTHER)
    assert place.claim(second, worker=OTHER)
    return second


def test_a_result_that_is_told_again_won_again_and_is_charged_once(place: Place) -> None:
    (attempt,) = place.run(place.submit(webhook_url="https://example.org/"))
    assert place.complete(attempt) == ["won"]
    assert place.complete(attempt) == ["won"]
    assert place.query("SELECT gpu_seconds FROM charges") == [(2.0,)]
    assert place.query("SELECT jobs, gpu_seconds FROM usage") == [(1, 2.0)]
    assert place.query("SELECT count(*) FROM deliveries") == [(1,)]
    assert place.query("SELECT version FROM jobs") == [(4,)]


def test_of_two_epochs_that_finish_together_one_has_the_result(place: Place) -> None:
    """Case 20: whatever the bucket took of both, the database takes the newer epoch's."""
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            job = place.submit()
            (first,) = place.run(job)
            second = supersede(place, job)
            told = pool.submit(place.complete, first), pool.submit(place.complete, second, worker=OTHER)
            assert [one.result() for one in told] == [["lost"], ["won"]]
            rows = place.query("SELECT state, result_epoch, result ->> 'key' FROM jobs WHERE job = %s", job)
            assert rows == [("completed", 2, f"r/{job}/2/video.mp4")]
            assert place.query("SELECT epoch FROM charges WHERE job = %s", job) == [(2,)]


@pytest.mark.parametrize("holder", [OTHER, Holder("w1", 2)])
def test_nobody_else_ends_an_attempt_even_if_it_knows_the_epoch(place: Place, holder: Holder) -> None:
    (attempt,) = place.run(place.submit())
    assert place.complete(attempt, worker=holder) == ["lost"]
    assert place.state(attempt.job) == "running"
    assert place.complete(attempt) == ["won"]


def test_a_batch_says_each_items_outcome(place: Place) -> None:
    mine, theirs, cancelled = (place.submit() for _ in range(3))
    attempts = place.run(mine, theirs, cancelled)
    supersede(place, theirs)
    place.cancel(cancelled)
    told = place.complete(*attempts, AttemptId("video_unknown", 1))
    assert told == ["won", "lost", "cancelled", "lost"]
    assert place.state(cancelled) == "cancelled"
    assert place.query("SELECT job FROM charges") == [(mine,)]


def test_a_charge_is_gpu_seconds_at_the_pools_price(place: Place) -> None:
    with place.jobs.transaction() as transaction:
        pools.set_pool(transaction, place.pool, {"price": 700})
    place.complete(*place.run(place.submit(), place.submit()), seconds=2.5)
    assert place.query("SELECT gpu_seconds, amount FROM charges") == [(2.5, 1_750)] * 2
    assert place.query("SELECT cost FROM jobs") == [(1_750,)] * 2
    assert place.query("SELECT gpu_seconds, amount, jobs FROM usage") == [(5.0, 3_500, 2)]


def test_results_are_kept_as_long_as_the_tenant_is_promised(place: Place) -> None:
    place.query("UPDATE tenants SET retention_days = 3")
    place.complete(*place.run(place.submit()))
    assert place.query("SELECT expires_at - completed_at = interval '3 days' FROM jobs") == [(True,)]


def test_a_transient_failure_waits_and_is_tried_again(place: Place) -> None:
    job = place.submit()
    (attempt,) = place.run(job)
    assert fail(place, attempt, "node") == "won"
    row = place.query("SELECT state, failures, error_code, extract(epoch FROM not_before - now())::float8 FROM jobs")
    assert row[0][:3] == ("queued", 1, None)
    assert 0.0 < row[0][3] <= 1.0  # half of the first wait's bound, two seconds
    attempts = place.query("SELECT outcome, code, message, log_tail, gpu_seconds FROM attempts")
    assert attempts == [("failed", "node", "a disk is full", "…", 1.5)]
    assert place.query("SELECT count(*) FROM charges") == [(0,)]
    assert fail(place, attempt, "node") == "won"  # its answer was lost
    assert place.query("SELECT failures FROM jobs") == [(1,)]


def test_a_permanent_failure_is_final(place: Place) -> None:
    (attempt,) = place.run(place.submit(webhook_url="https://example.org/"))
    assert fail(place, attempt, "content_refused", message="no") == "won"
    assert place.query("SELECT state, error_code, error_message FROM jobs") == [("failed", "content_refused", "no")]
    assert place.query("SELECT type FROM deliveries") == [("video.failed",)]


def test_budgets_end_what_goes_on_failing(place: Place) -> None:
    job = place.submit()
    for _ in range(POLICY.transient_budget):
        place.query("UPDATE jobs SET not_before = NULL")
        (attempt,) = place.run(job)
        fail(place, attempt, "timed_out")
    assert place.query("SELECT state, epoch, error_code FROM jobs") == [
        ("failed", POLICY.transient_budget, "timed_out"),
    ]


def test_a_code_that_repeats_here_is_tried_elsewhere(place: Place) -> None:
    with place.jobs.transaction() as transaction:
        pools.ensure(transaction, "large")
        pools.set_pool(transaction, place.pool, {"fallback": "large"})
    job = place.submit()
    for expected in ("gpu", "gpu"):
        place.query("UPDATE jobs SET not_before = NULL")
        (attempt,) = place.run(job)
        fail(place, attempt, "out_of_memory")
        # A pool that does not offer the model is none to fall back to.
        assert place.query("SELECT pool FROM jobs") == [(expected,)]
    place.query("INSERT INTO models (model, pool, capabilities) VALUES ('testcard', 'large', '{}')")
    place.query("UPDATE jobs SET not_before = NULL")
    (attempt,) = place.run(job)
    fail(place, attempt, "out_of_memory")
    assert place.query("SELECT pool, state FROM jobs") == [("large", "queued")]
    assert place.query("SELECT left_pool FROM outbox ORDER BY seq DESC LIMIT 1") == [("gpu",)]


def test_a_log_with_bytes_that_no_database_keeps_is_kept_without_them(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    fail(place, attempt, log_tail="a\0b")
    assert place.query("SELECT log_tail FROM attempts") == [("a�b",)]


def test_what_is_given_back_costs_nothing_and_resumes(place: Place) -> None:
    job = place.submit()
    (attempt,) = place.run(job)
    checkpoint = {"key": f"r/{job}/1/checkpoint-3", "step": 3, "epoch": 1}
    assert release(place, attempt, checkpoint) == "won"
    assert release(place, attempt, checkpoint) == "won"
    row = place.query("SELECT state, failures, leases_lost, crashes, not_before, checkpoint ->> 'step' FROM jobs")
    assert row == [("queued", 0, 0, 0, None, "3")]
    assert place.query("SELECT outcome FROM attempts") == [("released",)]


def test_a_grant_can_be_given_back_unclaimed(place: Place) -> None:
    (attempt,) = place.grant(place.submit())
    assert release(place, attempt) == "won"
    assert place.state(attempt.job) == "queued"


def test_a_cancelled_job_ends_with_the_proof_that_it_stopped(place: Place) -> None:
    (attempt,) = place.run(place.submit(webhook_url="https://example.org/"))
    place.cancel(attempt.job)
    assert place.state(attempt.job) == "cancelling"
    assert stopped(place, attempt) == "won"
    assert stopped(place, attempt) == "won"
    assert place.state(attempt.job) == "cancelled"
    assert place.query("SELECT outcome, gpu_seconds FROM attempts") == [("cancelled", 2.5)]
    assert place.query("SELECT type FROM deliveries") == [("video.cancelled",)]


@pytest.mark.parametrize("end", [fail, release])
def test_any_end_of_a_cancelled_job_proves_that_it_stopped(place: Place, end: Any) -> None:
    (attempt,) = place.run(place.submit())
    place.cancel(attempt.job)
    assert end(place, attempt) == "cancelled"
    assert place.state(attempt.job) == "cancelled"


@pytest.mark.parametrize("end", [fail, release, stopped])
def test_a_superseded_attempt_ends_nothing(place: Place, end: Any) -> None:
    job = place.submit()
    (first,) = place.run(job)
    supersede(place, job)
    assert end(place, first) == "lost"
    assert place.query("SELECT state, epoch FROM jobs") == [("running", 2)]
    assert len(place.query("SELECT job FROM leases")) == 1


def test_a_job_that_nobody_cancelled_is_not_stopped(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    assert stopped(place, attempt) == "lost"
    assert place.state(attempt.job) == "running"
