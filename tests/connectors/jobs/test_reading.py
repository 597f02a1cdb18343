"""What owners see of their jobs, and may do with them."""

from __future__ import annotations

from headwater.connectors.jobs import reading
from headwater.connectors.jobs.leases import Beat
from headwater.rules.jobs.states import JobState
from tests.any_job import Place


def listed(place: Place, **given: object) -> list[str]:
    with place.jobs.quiet() as transaction:
        found = reading.listed(transaction, place.tenant, **{"after": None, "limit": 10, **given})  # type: ignore[arg-type]
    return [view.job for view in found]


def test_pages_follow_one_another(place: Place) -> None:
    jobs = [place.submit() for _ in range(5)]
    place.query("UPDATE jobs SET created_at = now()")  # of one moment: the id decides
    newest_first = sorted(jobs, reverse=True)
    assert listed(place, limit=2) == newest_first[:2]
    assert listed(place, limit=10, after=newest_first[1]) == newest_first[2:]
    assert listed(place, limit=10, oldest_first=True) == newest_first[::-1]


def test_a_list_may_be_of_states(place: Place) -> None:
    queued, cancelled = place.submit(), place.submit()
    place.cancel(cancelled)
    assert listed(place, states=[JobState.cancelled]) == [cancelled]
    assert listed(place, states=[JobState.queued, JobState.granted]) == [queued]


def test_nothing_of_another_tenant_is_seen_or_touched(place: Place) -> None:
    job = place.submit()
    place.run(job)
    thief = Place(place.jobs, tenant="thief")
    with place.jobs.quiet() as transaction:
        assert reading.get(transaction, "thief", job) is None
        assert reading.attempts(transaction, "thief", job) == []
    assert listed(thief) == []
    assert thief.cancel(job) is None
    assert thief.delete(job) is None
    assert thief.undelete(job) is None
    assert place.state(job) == "running"


def test_progress_is_the_workers_while_it_runs(place: Place) -> None:
    job = place.submit()
    (attempt,) = place.run(job)
    place.beat(Beat(job=job, epoch=attempt.epoch, step=3, steps=12, stage="generating"))
    with place.jobs.quiet() as transaction:
        (view,) = reading.present(transaction, [job])
        (shown,) = reading.attempts(transaction, place.tenant, job)
    assert (view.progress, view.step, view.steps, view.state) == (25, 3, 12, JobState.running)
    assert (shown.step, shown.outcome) == (3, None)


def test_a_queued_job_is_cancelled_at_once(place: Place) -> None:
    view = place.cancel(place.submit(webhook_url="https://example.org/"))
    assert view is not None
    assert (view.state, view.completed_at is None) == (JobState.cancelled, False)
    assert place.query("SELECT type FROM deliveries") == [("video.cancelled",)]


def test_a_granted_job_is_cancelled_at_once_and_told_state_by_state(place: Place) -> None:
    """Nobody has begun it: its claim finds nothing."""
    job = place.submit()
    (attempt,) = place.grant(job)
    assert place.cancel(job)
    assert place.claim(attempt) == []
    told = place.query("SELECT state, version FROM outbox ORDER BY version")
    assert told == [("queued", 1), ("granted", 2), ("cancelling", 3), ("cancelled", 4)]
    assert place.query("SELECT outcome FROM attempts") == [("cancelled",)]
    assert place.query("SELECT count(*) FROM leases") == [(0,)]


def test_what_ended_is_not_cancelled(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    place.complete(attempt)
    view = place.cancel(attempt.job)
    assert view is not None
    assert view.state is JobState.completed


def test_a_deleted_job_is_hidden_until_it_comes_back(place: Place) -> None:
    job = place.submit()
    assert place.delete(job)
    assert listed(place) == [job]  # it has not ended: it can be cancelled
    place.cancel(job)
    place.delete(job)
    assert listed(place) == []
    place.undelete(job)
    assert listed(place) == [job]
