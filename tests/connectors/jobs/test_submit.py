"""A job is accepted once, and only if its transaction is committed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from headwater.connectors.jobs import reading, submit
from headwater.connectors.jobs.submit import SubmitOutcome
from tests.any_job import Place

KEY = {"idempotency_key": "k", "fingerprint": b"f"}


def test_what_is_answered_is_what_is_stored(place: Place) -> None:
    view = place.post(priority=2, webhook_url="https://example.org/").view
    assert view is not None
    with place.jobs.quiet() as transaction:
        assert reading.get(transaction, place.tenant, view.job) == view


def test_fifty_posts_with_one_key_make_one_job(place: Place) -> None:
    """Case 16."""
    start = Barrier(50)

    def post(_: int) -> tuple[SubmitOutcome, str | None]:
        start.wait()
        submitted = place.post(**KEY)
        return submitted.outcome, submitted.view and submitted.view.job

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, range(50)))

    ((job,),) = place.query("SELECT job FROM jobs")
    outcomes = Counter(outcome for outcome, _ in answers)
    assert outcomes[SubmitOutcome.new] == 1
    assert outcomes.keys() <= {SubmitOutcome.new, SubmitOutcome.replayed, SubmitOutcome.in_flight}
    assert {told for outcome, told in answers if outcome is not SubmitOutcome.in_flight} == {job}
    assert place.query("SELECT job, version FROM outbox") == [(job, 1)]


def test_who_comes_while_the_first_commits_does_not_wait(place: Place) -> None:
    with place.jobs.transaction() as first:
        assert submit.submit(first, place.submission(**KEY)).outcome is SubmitOutcome.new
        assert place.post(**KEY).outcome is SubmitOutcome.in_flight
    assert place.post(**KEY).outcome is SubmitOutcome.replayed


def test_a_repeated_request_is_answered_with_its_job_as_it_is_now(place: Place) -> None:
    first = place.post(**KEY).view
    assert first is not None
    place.run(first.job)
    again = place.post(**KEY)
    assert again.outcome is SubmitOutcome.replayed
    assert again.view is not None
    assert (again.view.job, again.view.state) == (first.job, "running")


def test_the_same_key_for_something_else_is_a_conflict(place: Place) -> None:
    place.post(**KEY)
    assert place.post(idempotency_key="k", fingerprint=b"g").outcome is SubmitOutcome.conflict
    assert len(place.query("SELECT job FROM jobs")) == 1


def test_keys_are_a_tenants_own(place: Place) -> None:
    place.post(**KEY)
    assert place.post(**KEY, tenant="other").outcome is SubmitOutcome.new


def test_what_is_rolled_back_was_never_there(place: Place) -> None:
    def fail() -> None:
        with place.jobs.transaction() as transaction:
            submit.submit(transaction, place.submission(**KEY))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    for table in ("jobs", "idempotency", "outbox"):
        assert place.query(f"SELECT count(*) FROM {table}") == [(0,)]
    assert place.post(**KEY).outcome is SubmitOutcome.new
