"""What a tenant may still submit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.connectors.jobs import quotas, tenants
from headwater.connectors.jobs.quotas import Allowance, Quota
from tests.any_job import Place


def take(place: Place, cost_seconds: float = 1.0) -> Allowance:
    with place.jobs.quiet() as transaction:
        tenant = tenants.get(transaction, place.tenant)
        assert tenant is not None
        return quotas.take(transaction, tenant, cost_seconds)


def limit(place: Place, **limits: float) -> None:
    with place.jobs.transaction() as transaction:
        tenants.set_tenant(transaction, place.tenant, limits)


def time_passes(place: Place, seconds: float) -> None:
    place.query(
        "UPDATE allowances SET next_at = next_at - make_interval(secs => %s), "
        "counted_at = counted_at - make_interval(secs => %s)",
        seconds,
        seconds,
    )


def test_without_limits_nothing_is_counted(place: Place) -> None:
    assert take(place) == Allowance()
    assert place.query("SELECT * FROM allowances") == []


def test_a_minutes_requests_and_not_one_more(place: Place) -> None:
    limit(place, requests_per_minute=3)
    lefts = [allowance.rate.left for _ in range(3) if (allowance := take(place)).rate and not allowance.refused]
    assert lefts == [2, 1, 0]

    refused = take(place)
    assert refused.refused is Quota.requests_per_minute
    assert refused.retry_after_seconds == pytest.approx(20.0, abs=5.0)  # a third of a minute
    assert refused.rate is not None
    assert refused.rate.left == 0


def test_the_bucket_fills_with_time(place: Place) -> None:
    limit(place, requests_per_minute=3)
    for _ in range(3):
        take(place)
    time_passes(place, 41.0)  # two thirds of a minute: two requests
    assert [take(place).refused for _ in range(3)] == [None, None, Quota.requests_per_minute]


def test_one_bucket_for_all_processes(place: Place) -> None:
    limit(place, requests_per_minute=20)
    with ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(lambda _: take(place).refused, range(60)))
    # Twenty, and as many as flow in again while these are asked: one each three seconds.
    assert 20 <= refused.count(None) <= 30


def test_no_more_unfinished_jobs_than_allowed(place: Place) -> None:
    limit(place, max_queued=2)
    first = place.submit()
    place.submit()
    assert take(place).refused is Quota.max_queued

    place.cancel(first)
    assert take(place).refused is Quota.max_queued  # counted a moment ago
    time_passes(place, 2.0)
    assert take(place).refused is None
    assert take(place).refused is Quota.max_queued  # what was taken counts before it is a job


def test_gpu_seconds_of_the_day_count_what_is_charged_and_what_waits(place: Place) -> None:
    limit(place, gpu_seconds_per_day=10.0)
    place.complete(*place.run(place.submit()), seconds=4.0)
    place.submit(cost_seconds=3.0)
    assert take(place, 3.5).refused is Quota.gpu_seconds_per_day
    assert take(place, 2.5).refused is None

    refused = take(place, 2.5)
    assert refused.refused is Quota.gpu_seconds_per_day
    assert 0 < refused.retry_after_seconds <= 86_400


def test_a_new_day_is_counted_anew(place: Place) -> None:
    limit(place, gpu_seconds_per_day=10.0)
    place.complete(*place.run(place.submit()), seconds=10.0)
    assert take(place).refused is Quota.gpu_seconds_per_day
    place.query("UPDATE usage SET day = day - 1")
    place.query("UPDATE allowances SET counted_at = date_trunc('day', now(), 'UTC') - interval '1 microsecond'")
    assert take(place).refused is None


def test_a_refused_request_takes_nothing(place: Place) -> None:
    limit(place, requests_per_minute=5, max_queued=0)
    for _ in range(10):
        assert take(place).refused is Quota.max_queued
    limit(place, max_queued=100)
    assert [take(place).refused for _ in range(6)] == [None] * 5 + [Quota.requests_per_minute]
