"""Who may grant what to whom."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.connectors.jobs import grants, pools, tenants
from headwater.connectors.jobs.grants import Wish
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.rules.errors import Fenced
from tests.any_job import TERM, Place

Eventually = Callable[..., object]

_BLOCKED = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def test_only_the_newest_owner_grants(place: Place) -> None:
    job = place.submit()
    with place.jobs.transaction() as transaction:
        newer = grants.take_over(transaction, place.pool, "another")
    with pytest.raises(Fenced):
        place.grant(job)
    assert place.state(job) == "queued"

    place.owner_epoch = newer
    assert place.grant(job) == [AttemptId(job, 1)]


def test_a_takeover_waits_for_a_grant_under_way_and_then_fences(place: Place, eventually: Eventually) -> None:
    """Otherwise the new owner would load a queue from which jobs still go."""
    job, late = place.submit(), place.submit()
    with ThreadPoolExecutor(1) as pool, place.jobs.transaction() as transaction:
        grants.grant_batch(transaction, place.pool, place.owner_epoch, [Wish(job, *place.worker)], TERM)

        def take_over() -> list[grants.Lease]:
            with place.jobs.transaction() as other:
                grants.take_over(other, place.pool, "another")
                return grants.leases_of(other, place.pool)

        loading = pool.submit(take_over)
        eventually(lambda: loading.done() or place.query(_BLOCKED) != [(0,)])
        transaction.commit()
        assert [lease.job for lease in loading.result(30)] == [job]
    with pytest.raises(Fenced):
        place.grant(late)


def test_a_worker_gets_no_more_than_its_slots(place: Place) -> None:
    place.register(place.worker, slots=2)
    jobs = [place.submit() for _ in range(3)]
    told = place.try_grant(*jobs)
    assert [id.job for id in told.granted] == jobs[:2]
    assert told.refused == [(jobs[2], "worker")]
    assert place.try_grant(jobs[2]).refused == [(jobs[2], "worker")]


def test_what_is_being_finished_holds_no_slot(place: Place) -> None:
    from headwater.connectors.jobs.leases import Beat

    place.register(place.worker, slots=1)
    first, second = place.submit(), place.submit()
    (attempt,) = place.run(first)
    place.beat(Beat(job=first, epoch=attempt.epoch, step=4, steps=4, stage="finishing"))
    assert place.grant(second) == [AttemptId(second, 1)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE jobs SET state = 'cancelled'", "gone"),
        ("UPDATE jobs SET not_before = now() + interval '1 minute'", "gone"),
        ("UPDATE jobs SET deadline = now() - interval '1 second'", "gone"),
        ("UPDATE jobs SET pool = 'another'", "gone"),
        ("UPDATE workers SET state = 'draining'", "worker"),
        ("UPDATE workers SET incarnation = 2", "worker"),
        ("DELETE FROM workers", "worker"),
        ("UPDATE tenants SET max_running = 0", "tenant"),
    ],
)
def test_what_may_not_be_granted_is_refused_by_name(place: Place, change: str, reason: str) -> None:
    job = place.submit()
    place.query(change)
    assert place.try_grant(job).refused == [(job, reason)]
    assert place.query("SELECT count(*) FROM leases") == [(0,)]


def test_a_backoff_that_is_over_is_no_bar(place: Place) -> None:
    job = place.submit()
    place.query("UPDATE jobs SET not_before = now() - interval '1 second'")
    place.grant(job)
    assert place.query("SELECT not_before FROM jobs") == [(None,)]


def test_a_tenants_limit_holds_over_pools_that_grant_at_once(place: Place) -> None:
    """Each pool has a scheduler of its own; both count under the tenant's lock."""
    with place.jobs.transaction() as transaction:
        tenants.set_tenant(transaction, place.tenant, {"max_running": 5})
        pools.ensure(transaction, "spare")
        other_epoch = grants.take_over(transaction, "spare", "me")
    other = Place(place.jobs, pool="spare", worker=Holder("w2", 1), owner_epoch=other_epoch)
    for each in (place, other):
        each.register(each.worker, slots=50)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(8):
            jobs = [[each.submit() for _ in range(4)] for each in (place, other)]
            told = list(pool.map(lambda pair: pair[0].try_grant(*pair[1]), zip((place, other), jobs, strict=True)))
            assert sum(len(one.granted) for one in told) == 5
            place.query("UPDATE jobs SET state = 'queued' WHERE state = 'granted'")
            place.query("UPDATE jobs SET state = 'cancelled' WHERE state = 'queued'")
            place.query("DELETE FROM leases")


def test_pages_of_the_queue_are_whole_and_in_order(place: Place) -> None:
    jobs = [place.submit() for _ in range(7)]
    place.run(jobs[3])
    place.query("UPDATE jobs SET queued_at = now() WHERE job = ANY(%s)", jobs[5:])  # two of one moment
    seen: list[grants.Waiting] = []
    with place.jobs.quiet() as transaction:
        while page := grants.waiting(
            transaction, place.pool, (seen[-1].queued_us, seen[-1].job) if seen else None, limit=2
        ):
            seen += page
    assert [one.job for one in seen] == [*jobs[:3], jobs[4], *sorted(jobs[5:])]


def test_an_infeasible_job_is_expired_by_the_owner_only(place: Place) -> None:
    queued, granted = place.submit(), place.submit()
    place.grant(granted)
    with place.jobs.transaction() as transaction:
        told = grants.expire_infeasible(
            transaction, place.pool, place.owner_epoch, [(queued, "too late"), (granted, "too late")]
        )
    assert told == [queued]
    assert place.query("SELECT state, reason FROM jobs WHERE job = %s", queued) == [("expired", "too late")]
    with place.jobs.transaction() as transaction, pytest.raises(Fenced):
        grants.expire_infeasible(transaction, place.pool, place.owner_epoch - 1, [(granted, "too late")])


def test_a_board_of_an_old_owner_is_dropped(place: Place) -> None:
    with place.jobs.quiet() as transaction:
        assert grants.publish_board(transaction, place.pool, place.owner_epoch, {"n": 1})
        grants.take_over(transaction, place.pool, "another")
        assert not grants.publish_board(transaction, place.pool, place.owner_epoch, {"n": 2})
        ((board,),) = transaction.execute("SELECT board FROM pools").fetchall()
    assert board == {"n": 1}
