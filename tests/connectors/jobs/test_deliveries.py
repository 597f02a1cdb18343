from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.connectors.jobs import deliveries
from headwater.connectors.jobs.deliveries import Delivery, Outcome
from headwater.rules.jobs.webhooks import Verdict, webhook_id

URL = "https://hooks.example.org/a"


@pytest.fixture
def cancelled(place: Any) -> Any:
    """Makes jobs that ended, and so have a webhook each; gives the ids of these."""

    def make(count: int, url: str = URL, **changes: Any) -> list[str]:
        jobs = [place.submit(webhook_url=url, **changes) for _ in range(count)]
        place.query("UPDATE jobs SET state = 'cancelled', completed_at = now() WHERE job = ANY(%s)", jobs)
        return [webhook_id(job, "video.cancelled") for job in jobs]

    return make


def due(place: Any, *, endpoints: Sequence[str] = (), tenants: Sequence[str] = (), limit: int = 100) -> set[str]:
    with place.jobs.quiet() as transaction:
        found = deliveries.due(transaction, full_endpoints=endpoints, full_tenants=tenants, limit=limit)
    return {one.delivery for one in found}


def take(place: Any, sender: str, hold_seconds: float = 60) -> list[Delivery]:
    with place.jobs.quiet() as transaction:
        found = deliveries.due(transaction, full_endpoints=[], full_tenants=[], limit=100)
        return deliveries.take(transaction, sender, found, hold_seconds)


def note(place: Any, sender: str, *outcomes: Outcome) -> None:
    with place.jobs.quiet() as transaction:
        deliveries.note(transaction, sender, outcomes)


def failed(delivery: Delivery, wait: float | None = 5.0) -> Outcome:
    return Outcome(delivery, Verdict.failed, 500, "it answered 500", wait)


def delivered(delivery: Delivery) -> Outcome:
    return Outcome(delivery, Verdict.delivered, 204, None, None)


def row(place: Any, delivery: str) -> tuple[Any, ...]:
    return tuple(place.query("SELECT state, attempts, taken_by FROM deliveries WHERE delivery = %s", delivery)[0])


def test_a_final_state_makes_the_webhook_whose_id_the_rules_give(place: Any, cancelled: Any) -> None:
    [expected] = cancelled(1)
    place.submit(webhook_url=URL)
    assert due(place) == {expected}


def test_a_job_without_a_url_makes_none(place: Any, cancelled: Any) -> None:
    cancelled(1, url=None)
    assert due(place) == set()


def test_what_one_sender_took_nobody_else_gets_until_its_hold_ends(place: Any, cancelled: Any) -> None:
    cancelled(3)
    mine = take(place, "me")
    assert len(mine) == 3
    assert take(place, "other") == []
    place.query("UPDATE deliveries SET taken_until = now() - interval '1 s'")
    assert {one.delivery for one in take(place, "other")} == {one.delivery for one in mine}


def test_two_senders_at_once_get_different_rows(place: Any, cancelled: Any) -> None:
    cancelled(4)
    with place.jobs.quiet() as one, place.jobs.quiet() as other:
        mine = deliveries.due(one, full_endpoints=[], full_tenants=[], limit=3)
        theirs = deliveries.due(other, full_endpoints=[], full_tenants=[], limit=3)
    assert (len(mine), len(theirs)) == (3, 1)
    assert not {entry.delivery for entry in mine} & {entry.delivery for entry in theirs}


def test_full_endpoints_and_tenants_are_left_out(place: Any, cancelled: Any) -> None:
    slow = set(cancelled(2, "https://slow.example/x"))
    other = set(cancelled(1, "https://other.example/x"))
    assert due(place, endpoints=["acme slow.example"]) == other
    assert due(place, tenants=["acme"]) == set()
    assert due(place) == slow | other


def test_a_failure_is_due_again_after_its_wait(place: Any, cancelled: Any) -> None:
    [delivery] = cancelled(1)
    note(place, "me", failed(*take(place, "me"), wait=300.0))
    assert row(place, delivery) == ("pending", 1, None)
    assert due(place) == set()
    [(wait,)] = place.query("SELECT extract(epoch FROM due_at - now()) FROM deliveries")
    assert 240 < wait <= 300


def test_a_failure_noted_by_who_lost_the_row_changes_nothing(place: Any, cancelled: Any) -> None:
    [delivery] = cancelled(1)
    [mine] = take(place, "me", hold_seconds=0)
    [theirs] = take(place, "other")
    note(place, "me", failed(mine, wait=None))
    assert row(place, delivery) == ("pending", 0, "other")
    note(place, "other", failed(theirs))
    assert row(place, delivery) == ("pending", 1, None)


def test_what_was_delivered_is_delivered_whoever_has_the_row(place: Any, cancelled: Any) -> None:
    [delivery] = cancelled(1)
    [mine] = take(place, "me", hold_seconds=0)
    [theirs] = take(place, "other")
    note(place, "me", delivered(mine))
    assert row(place, delivery) == ("delivered", 1, None)
    note(place, "other", failed(theirs, wait=None))
    assert row(place, delivery) == ("delivered", 1, None)


def test_noting_twice_changes_nothing(place: Any, cancelled: Any) -> None:
    [delivery] = cancelled(1)
    outcome = failed(*take(place, "me"))
    note(place, "me", outcome)
    note(place, "me", outcome)
    assert row(place, delivery) == ("pending", 1, None)


def test_410_ends_what_waits_for_that_url_and_nothing_beside_it(place: Any, cancelled: Any) -> None:
    first, second = cancelled(2)
    [elsewhere] = cancelled(1, "https://hooks.example.org/b")
    mine = {one.delivery: one for one in take(place, "me")}
    note(place, "me", Outcome(mine[first], Verdict.disabled, 410, "gone", None))
    assert row(place, first)[0] == row(place, second)[0] == "failed"
    assert row(place, elsewhere)[0] == "pending"

    [later] = cancelled(1)
    [found] = take(place, "me")
    assert (found.delivery, found.disabled) == (later, True)


def test_a_replay_begins_the_schedule_anew_and_enables_the_endpoint(place: Any, cancelled: Any) -> None:
    [delivery] = cancelled(1)
    note(place, "me", Outcome(*take(place, "me"), Verdict.disabled, 410, "gone", None))
    [(job,)] = place.query("SELECT job FROM deliveries")
    with place.jobs.quiet() as transaction:
        assert not deliveries.replay(transaction, "another", job, delivery), "of another tenant"
        assert deliveries.replay(transaction, "acme", job, delivery)
        [shown] = deliveries.of_job(transaction, "acme", job)
        assert deliveries.of_job(transaction, "another", job) == []
    assert (shown.state, shown.attempts, shown.ended_at) == ("pending", 0, None)
    [found] = take(place, "me")
    assert (found.delivery, found.disabled) == (delivery, False)


def test_a_resting_endpoint_is_not_due_and_what_is_too_old_has_failed(place: Any, cancelled: Any) -> None:
    old, *young = cancelled(4)
    [other] = cancelled(1, "https://other.example/x")
    place.query("UPDATE deliveries SET begun_at = now() - interval '97 hours' WHERE delivery = %s", old)
    with place.jobs.quiet() as transaction:
        first = deliveries.postpone(transaction, "acme hooks.example.org", 100.0, limit=3)
        second = deliveries.postpone(transaction, "acme hooks.example.org", 100.0, limit=3)
    assert (first[0], second[0], first[1] + second[1]) == (3, 1, 1)
    assert due(place) == {other}
    assert row(place, old)[0] == "failed"
    assert {row(place, one)[0] for one in young} == {"pending"}


def test_the_oldest_that_is_due_is_measured_without_those_that_rest(place: Any, cancelled: Any) -> None:
    cancelled(2)
    place.query("UPDATE deliveries SET due_at = now() - interval '100 s'")
    with place.jobs.quiet() as transaction:
        assert deliveries.oldest_due_seconds(transaction, full_endpoints=[]) >= 100
        assert deliveries.oldest_due_seconds(transaction, full_endpoints=["acme hooks.example.org"]) == 0.0
