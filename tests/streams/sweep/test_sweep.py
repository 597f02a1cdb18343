"""The sweeper ends what time ended, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from headwater.connectors.jobs import expiry, remains
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.streams.sweep.remains import Remains
from headwater.streams.sweep.sweep import Sweep
from tests.any_job import POLICY, Place

Eventually = Callable[..., object]


@pytest.fixture
def store(bucket: str) -> ObjectStore:
    return ObjectStore(S3Config.from_url(bucket))


@pytest.fixture
def sweep(place: Place, store: ObjectStore) -> Sweep:
    return Sweep(place.jobs, store, POLICY)


def end_leases(place: Place) -> None:
    place.query("UPDATE leases SET expires_at = now() - interval '1 second'")


def ticks(place: Place) -> None:
    """Both live, a moment ago."""
    with place.jobs.quiet() as transaction:
        expiry.tick(transaction, expiry.ENDPOINT)
        expiry.tick(transaction, expiry.SWEEP)


def test_the_job_of_a_dead_worker_is_queued_again_at_its_place(place: Place, sweep: Sweep) -> None:
    job = place.submit()
    place.run(job)
    queued_at = place.query("SELECT queued_at FROM jobs")
    end_leases(place)
    ticks(place)
    sweep.look()

    assert place.query("SELECT state, leases_lost, not_before FROM jobs") == [("queued", 1, None)]
    assert place.query("SELECT queued_at FROM jobs") == queued_at
    assert place.query("SELECT outcome, claimed_at IS NULL FROM attempts") == [("lease_lost", False)]
    assert place.grant(job)[0].epoch == 2


def test_a_lease_that_lives_is_left_alone(place: Place, sweep: Sweep) -> None:
    job = place.submit()
    place.run(job)
    ticks(place)
    sweep.look()
    assert place.state(job) == "running"


def test_nobody_loses_a_lease_while_no_endpoint_could_hear_beats(place: Place, sweep: Sweep) -> None:
    job = place.submit()
    place.run(job)
    end_leases(place)
    place.query("UPDATE alive SET ticked_at = now() - interval '3 seconds' WHERE name = 'endpoint'")
    place.query("UPDATE workers SET seen_at = now() - interval '11 seconds'")
    sweep.look()

    assert place.state(job) == "running"
    ((left,),) = place.query("SELECT extract(epoch FROM expires_at - now())::float8 FROM leases")
    assert 5.0 < left <= 10.0
    ticks(place)
    sweep.look()
    assert place.query("SELECT state FROM workers") == [("active",)]


def test_nobody_loses_a_lease_while_no_sweeper_looked(place: Place, sweep: Sweep) -> None:
    job = place.submit()
    place.run(job)
    end_leases(place)
    place.query("UPDATE alive SET ticked_at = now() - interval '3 seconds' WHERE name = 'sweep'")
    sweep.look()
    assert place.state(job) == "running"

    end_leases(place)
    ticks(place)
    sweep.look()
    assert place.state(job) == "queued"


def test_after_a_crash_of_the_server_every_lease_gets_a_term(place: Place, sweep: Sweep) -> None:
    """Then the ticks, which wait for no disk, are gone."""
    job = place.submit()
    place.run(job)
    end_leases(place)
    place.query("TRUNCATE alive")
    sweep.look()
    assert place.state(job) == "running"


def test_an_unclaimed_grant_costs_no_budget(place: Place, sweep: Sweep) -> None:
    job = place.submit()
    place.grant(job)
    end_leases(place)
    ticks(place)
    sweep.look()
    assert place.query("SELECT state, leases_lost FROM jobs") == [("queued", 0)]
    assert place.query("SELECT outcome, swept_at IS NULL FROM attempts") == [("lease_lost", False)]


def test_a_job_that_kills_its_workers_fails_in_the_end(place: Place, sweep: Sweep) -> None:
    job = place.submit(webhook_url="https://example.org/")
    place.run(job)
    place.query("UPDATE jobs SET leases_lost = %s", POLICY.lease_budget - 1)
    end_leases(place)
    ticks(place)
    sweep.look()
    assert place.query("SELECT state, error_code FROM jobs") == [("failed", "leases_spent")]
    assert place.query("SELECT type FROM deliveries") == [("video.failed",)]


def test_a_silent_worker_is_gone_until_it_beats(place: Place, sweep: Sweep) -> None:
    place.query("UPDATE workers SET seen_at = now() - interval '11 seconds'")
    ticks(place)
    sweep.look()
    assert place.query("SELECT state FROM workers") == [("gone",)]
    assert place.try_grant(place.submit()).refused[0][1] == "worker"

    assert not place.beat().unknown_worker
    assert place.query("SELECT state FROM workers") == [("active",)]


def test_the_job_of_a_dead_worker_is_never_granted_to_it_again(place: Place, sweep: Sweep) -> None:
    """In the look that ends its lease: a scheduler that hears of it at once would find the worker idle."""
    job = place.submit()
    place.run(job)
    end_leases(place)
    place.query("UPDATE workers SET seen_at = now() - interval '11 seconds'")
    ticks(place)
    sweep.look()
    assert place.state(job) == "queued"
    assert place.try_grant(job).refused == [(job, "worker")]


def test_deadlines_end_what_nobody_began(place: Place, sweep: Sweep) -> None:
    queued, granted, running = (place.submit(webhook_url="https://example.org/") for _ in range(3))
    place.grant(granted)
    place.run(running)
    place.query("UPDATE jobs SET deadline = now() - interval '1 second'")
    sweep.look()

    assert [place.state(job) for job in (queued, granted, running)] == ["expired", "expired", "running"]
    assert place.query("SELECT job FROM leases") == [(running,)]
    assert place.query("SELECT type FROM deliveries") == [("video.expired",)] * 2
    assert place.query("SELECT outcome FROM attempts WHERE job = %s", granted) == [("expired",)]


def test_it_serves_until_it_is_stopped(place: Place, sweep: Sweep, eventually: Eventually) -> None:
    job = place.submit()
    place.query("UPDATE jobs SET deadline = now() - interval '1 second'")
    thread = Thread(target=sweep.run)
    thread.start()
    eventually(lambda: place.state(job) == "expired")
    sweep.stop()
    thread.join()
    assert sweep.state().phase == "stopped"


def test_other_epochs_outputs_go_a_day_after_the_end(place: Place, store: ObjectStore) -> None:
    job = place.submit()
    (first,) = place.run(job)
    with place.jobs.quiet() as transaction:
        expiry.tick(transaction, expiry.ENDPOINT)
        end_leases(place)
        expiry.expire_leases(transaction, POLICY)
    (second,) = place.run(job)
    place.beat_checkpoint(second, 3)
    place.complete(second)
    kept = [f"r/{job}/2/video.mp4", f"r/{job}/2/thumbnail.jpg"]
    gone = [f"r/{job}/1/video.mp4", f"r/{job}/1/checkpoint-2", f"r/{job}/2/checkpoint-3"]
    for key in kept + gone:
        store.put_whole(key, b"x")
    sweeper = Remains(place.jobs, store)

    assert sweeper.sweep_outputs() == 0
    assert sorted(store.list_keys(f"r/{job}/")) == sorted(kept + gone)
    day_passes(place)
    assert sweeper.sweep_outputs() == 2
    assert sorted(store.list_keys(f"r/{job}/")) == sorted(kept)
    assert sweeper.sweep_outputs() == 0
    assert first.epoch == 1


def test_a_result_without_checkpoints_leaves_nothing_to_look_for(place: Place, store: ObjectStore) -> None:
    """Most jobs: a listing for each would be as many requests as jobs."""
    (attempt,) = place.run(place.submit())
    place.complete(attempt)
    day_passes(place)
    assert Remains(place.jobs, store).sweep_outputs() == 0


def test_results_go_when_their_days_are_over(place: Place, store: ObjectStore) -> None:
    old, young = (place.submit() for _ in range(2))
    place.complete(*place.run(old, young))
    for job in (old, young):
        store.put_whole(f"r/{job}/1/video.mp4", b"x")
    place.query("UPDATE jobs SET expires_at = now() WHERE job = %s", old)
    sweeper = Remains(place.jobs, store)

    assert sweeper.sweep_results() == 1
    assert store.list_keys("r/") == [f"r/{young}/1/video.mp4"]
    assert sweeper.sweep_results() == 0


def test_deleted_results_go_when_they_cannot_come_back(place: Place, store: ObjectStore) -> None:
    job = place.submit()
    place.complete(*place.run(job))
    store.put_whole(f"r/{job}/1/video.mp4", b"x")
    place.delete(job)
    sweeper = Remains(place.jobs, store)

    assert sweeper.sweep_results() == 0
    place.query("UPDATE jobs SET deleted_at = now() - make_interval(days => %s)", remains.UNDELETE_DAYS)
    undeleted = place.undelete(job)
    assert undeleted is not None
    assert undeleted.deleted_at is not None
    assert sweeper.sweep_results() == 1
    assert store.list_keys("r/") == []


def test_keys_are_forgotten_after_a_day(place: Place, store: ObjectStore) -> None:
    for key in ("old", "new"):
        place.post(idempotency_key=key, fingerprint=b"f")
    place.query("UPDATE idempotency SET created_at = now() - interval '25 hours' WHERE key = 'old'")
    Remains(place.jobs, store).forget_keys()
    assert place.query("SELECT key FROM idempotency") == [("new",)]


def day_passes(place: Place) -> None:
    place.query("UPDATE jobs SET completed_at = completed_at - interval '25 hours'")
    place.query("UPDATE attempts SET ended_at = ended_at - interval '25 hours'")
