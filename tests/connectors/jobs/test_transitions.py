"""The database holds the table of transitions, whoever writes."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.ends import Ending, Move
from headwater.rules.jobs import webhooks
from headwater.rules.jobs.states import TRANSITIONS, JobState
from tests.any_job import Place

DESIGN = {
    "queued": {"granted", "cancelling", "cancelled", "expired", "failed"},
    "granted": {"running", "queued", "cancelling", "expired"},
    "running": {"completed", "failed", "queued", "cancelling"},
    "cancelling": {"cancelled"},
}
"""As design and documentation say it."""


def in_state(place: Place, state: JobState) -> str:
    """A job that came to be in this state."""
    job = place.submit()
    match state:
        case JobState.queued:
            pass
        case JobState.cancelled:
            place.cancel(job)
        case JobState.expired:
            place.query("UPDATE jobs SET state = 'expired' WHERE job = %s", job)
        case JobState.granted:
            place.grant(job)
        case _:
            attempts = place.run(job)
            if state is JobState.completed:
                place.complete(*attempts)
            elif state is JobState.cancelling:
                place.cancel(job)
            elif state is JobState.failed:
                place.query("UPDATE jobs SET state = 'failed' WHERE job = %s", job)
    assert place.state(job) == state
    return job


def refused(jobs: JobsDatabase, statement: str) -> bool:
    try:
        with jobs.transaction() as transaction:
            transaction.execute(statement.encode())
    except psycopg.errors.RaiseException:
        return True
    return False


def test_the_database_has_the_table_of_the_rules(place: Place) -> None:
    rows = place.query("SELECT before, after FROM transitions")

    assert set(rows) == {(str(before), str(after)) for before, afters in TRANSITIONS.items() for after in afters}
    assert set(rows) == {(before, after) for before, afters in DESIGN.items() for after in afters}


def test_every_other_transition_is_refused(place: Place) -> None:
    place.register(place.worker, slots=200)
    for before, after in product(JobState, JobState):
        if before is not after:
            job = in_state(place, before)
            update = f"UPDATE jobs SET state = '{after}' WHERE job = '{job}'"
            assert refused(place.jobs, update) == (after not in DESIGN.get(before, ())), (before, after)


@pytest.mark.parametrize("change", ["epoch = epoch - 1", "epoch = epoch + 1", "version = version + 1", "version = 1"])
def test_epoch_and_version_change_with_the_state_only(place: Place, change: str) -> None:
    (attempt,) = place.run(place.submit())
    assert refused(place.jobs, f"UPDATE jobs SET {change}")
    assert place.query("SELECT epoch, version FROM jobs") == [(attempt.epoch, 3)]


def test_an_epoch_never_goes_back(place: Place) -> None:
    place.run(place.submit())
    assert refused(place.jobs, "UPDATE jobs SET state = 'queued', epoch = 0")


@pytest.mark.parametrize("state", [state for state in JobState if state.final])
def test_whoever_makes_a_state_final_owes_its_webhook(place: Place, state: JobState) -> None:
    """The id is that of the rules, so that a receiver knows what it has seen."""
    in_state(place, JobState.queued)  # without a URL
    moves = {
        JobState.cancelled: lambda job: place.cancel(job),
        JobState.expired: lambda job: place.query("UPDATE jobs SET state = 'expired' WHERE job = %s", job),
        JobState.failed: lambda job: place.query("UPDATE jobs SET state = 'failed' WHERE job = %s", job),
        JobState.completed: lambda job: place.complete(*place.run(job)),
    }
    job = place.submit(webhook_url="https://example.org/hook")
    moves[state](job)

    kind = webhooks.webhook_type(state)
    rows = place.query("SELECT delivery, job, tenant, type, url, state FROM deliveries")
    assert rows == [
        (webhooks.webhook_id(job, kind), job, "acme", kind, "https://example.org/hook", "pending"),
    ]


def test_ten_thousand_at_once_are_told_in_a_second_or_two(place: Place) -> None:
    """The trigger's join of old and new rows was quadratic once: this took more than the statement's twenty seconds."""
    place.query(
        "INSERT INTO jobs (job, tenant, pool, model, size, seconds, request, cost_seconds) "
        "SELECT 'video_' || g, 'acme', 'gpu', 'm', '64x64', '2', '{}', 1 FROM generate_series(1, 10000) g"
    )
    place.query("UPDATE jobs SET state = 'cancelled'")
    assert place.query("SELECT count(*) FROM outbox") == [(20_000,)]


def test_a_move_without_an_attempt_ends_none(place: Place) -> None:
    """A job that waits for its second attempt: its first one ended before."""
    from headwater.connectors.jobs import ends

    job = place.submit()
    place.run(job)
    with place.jobs.transaction() as transaction:
        (held,) = ends.hold(transaction, [job], [JobState.running])
        ends.move(transaction, [Move(job, held.epoch, JobState.queued, "again", Ending(outcome="released"))])
    place.cancel(job)
    assert place.query("SELECT outcome FROM attempts") == [("released",)]
