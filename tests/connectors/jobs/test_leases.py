"""Claims and beats: who works on what, for how long still."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.connectors.jobs.leases import Beat, BeatOutcome
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.rules.errors import Fenced
from tests.any_job import Place

AGAIN, OTHER = Holder("w1", 2), Holder("w2", 1)


def beat_of(id: AttemptId, step: int = 0, stage: str = "generating", **more: Any) -> Beat:
    return Beat(job=id.job, epoch=id.epoch, step=step, steps=10, stage=stage, **more)


def time_passes(place: Place, seconds: float) -> None:
    place.query(
        "UPDATE leases SET step_at = step_at - make_interval(secs => %s), "
        "expires_at = expires_at - make_interval(secs => %s)",
        seconds,
        seconds,
    )


def left(place: Place) -> float:
    """Seconds of the one lease."""
    ((seconds,),) = place.query("SELECT extract(epoch FROM expires_at - now())::float8 FROM leases")
    return float(seconds)


def outcome(place: Place, beat: Beat) -> BeatOutcome:
    (told,) = place.beat(beat).beats
    return told.outcome


def test_a_claim_that_is_repeated_is_answered_again(place: Place) -> None:
    """Its answer was lost: without this the job would idle for a lease."""
    (attempt,) = place.grant(place.submit())
    (first,) = place.claim(attempt)
    assert place.claim(attempt) == [replace(first, waited_seconds=None)]
    assert place.query("SELECT version FROM jobs") == [(3,)]


@pytest.mark.parametrize("worker", [AGAIN, OTHER])
def test_a_grant_is_for_one_worker_in_one_life(place: Place, worker: Holder) -> None:
    (attempt,) = place.grant(place.submit())
    assert place.claim(attempt, worker=worker) == []
    assert place.state(attempt.job) == "granted"


@pytest.mark.parametrize(
    "change", ["UPDATE jobs SET state = 'cancelling'", "UPDATE jobs SET deadline = now() - interval '1 second'"]
)
def test_what_ended_meanwhile_cannot_be_claimed(place: Place, change: str) -> None:
    (attempt,) = place.grant(place.submit())
    place.query(change)
    assert place.claim(attempt) == []


def test_an_older_epoch_cannot_be_claimed(place: Place) -> None:
    job = place.submit()
    (first,) = place.grant(job)
    place.query("UPDATE jobs SET state = 'queued'")
    place.query("DELETE FROM leases")
    (second,) = place.grant(job)
    assert place.claim(first) == []
    assert [one.epoch for one in place.claim(second)] == [2]


def test_a_beat_extends_by_a_term_and_keeps_the_progress(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    time_passes(place, 9.0)
    answer = place.beat(beat_of(attempt, 5))
    assert [(one.outcome, one.before, one.entered) for one in answer.beats] == [("extended", 0, True)]
    assert 5.0 < left(place) <= 10.0
    assert place.query("SELECT step, steps FROM leases") == [(5, 10)]


@pytest.mark.parametrize("holder", [AGAIN, OTHER])
def test_another_life_extends_nothing(place: Place, holder: Holder) -> None:
    (attempt,) = place.run(place.submit())
    time_passes(place, 9.0)
    answer = place.beat(beat_of(attempt, 5), worker=holder)
    assert (answer.unknown_worker, answer.beats) == (True, [])
    assert left(place) < 5.0


def test_a_job_of_another_epoch_is_not_extended(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    assert place.beat(beat_of(AttemptId(attempt.job, attempt.epoch + 1))).beats == []


def test_a_beat_says_what_is_granted_and_not_claimed(place: Place) -> None:
    """A grant whose record was lost costs one beat."""
    running, waiting = place.submit(), place.submit()
    place.run(running)
    (granted,) = place.grant(waiting)
    assert place.beat().granted == [granted]
    place.claim(granted)
    assert place.beat().granted == []


def test_a_cancelled_job_hears_of_it_and_keeps_its_lease(place: Place) -> None:
    (attempt,) = place.run(place.submit())
    place.cancel(attempt.job)
    time_passes(place, 9.0)
    assert outcome(place, beat_of(attempt, 1)) is BeatOutcome.cancel
    assert left(place) > 5.0


MODEL = {"testcard": {"step_limit_seconds": 20.0, "load_limit_seconds": 100.0}}


def test_a_model_that_does_not_move_loses_its_lease(place: Place) -> None:
    place.register(place.worker, **MODEL)
    (attempt,) = place.run(place.submit())
    assert outcome(place, beat_of(attempt, 0)) is BeatOutcome.extended
    time_passes(place, 99.0)
    assert outcome(place, beat_of(attempt, 0)) is BeatOutcome.extended  # it may still load
    assert outcome(place, beat_of(attempt, 1)) is BeatOutcome.extended
    time_passes(place, 19.0)
    assert outcome(place, beat_of(attempt, 1)) is BeatOutcome.extended
    time_passes(place, 2.0)
    before = left(place)
    assert outcome(place, beat_of(attempt, 1)) is BeatOutcome.stalled
    assert left(place) <= before
    assert outcome(place, beat_of(attempt, 2)) is BeatOutcome.extended


def test_a_load_that_takes_too_long_loses_its_lease(place: Place) -> None:
    place.register(place.worker, **MODEL)
    (attempt,) = place.run(place.submit())
    place.beat(beat_of(attempt, 0))
    time_passes(place, 101.0)
    assert outcome(place, beat_of(attempt, 0)) is BeatOutcome.stalled


def test_steps_that_usually_take_long_may_take_longer(place: Place) -> None:
    place.register(place.worker, **MODEL)
    (attempt,) = place.run(place.submit())
    for step in range(1, 8):
        place.beat(beat_of(attempt, step))
        time_passes(place, 15.0)
    time_passes(place, 100.0)  # more than the limit, less than ten usual steps
    assert outcome(place, beat_of(attempt, 7)) is BeatOutcome.extended
    time_passes(place, 50.0)
    assert outcome(place, beat_of(attempt, 7)) is BeatOutcome.stalled


@pytest.mark.parametrize("stage", ["granted", "finishing"])
def test_only_a_model_at_work_must_move(place: Place, stage: str) -> None:
    """What waits for its batch, or for S3, does not hang."""
    place.register(place.worker, **MODEL)
    (attempt,) = place.run(place.submit())
    for _ in range(3):
        time_passes(place, 1_000.0)
        assert outcome(place, beat_of(attempt, 3, stage)) is BeatOutcome.extended


def test_the_newest_checkpoint_is_kept_for_the_next_attempt(place: Place) -> None:
    job = place.submit()
    (attempt,) = place.run(job)
    place.beat_checkpoint(attempt, 4)
    place.beat_checkpoint(attempt, 2)  # a beat that was overtaken
    place.query("UPDATE jobs SET state = 'queued'")
    place.query("DELETE FROM leases")
    place.beat_checkpoint(attempt, 6)  # of an attempt that is over

    (second,) = place.grant(job)
    (claimed,) = place.claim(second)
    assert claimed.checkpoint == {"key": f"r/{job}/1/checkpoint-4", "step": 4, "epoch": 1}
    assert place.query("SELECT resumed_step FROM attempts WHERE epoch = 2") == [(4,)]


def test_a_restarted_worker_ends_what_it_had(place: Place) -> None:
    """At once: nobody waits for the lease of a process that is gone."""
    running, granted, cancelling = (place.submit() for _ in range(3))
    (attempt,) = place.run(running)
    place.run(cancelling)
    place.cancel(cancelling)
    place.grant(granted)
    place.register(AGAIN)

    assert [place.state(job) for job in (running, granted, cancelling)] == ["queued", "queued", "cancelled"]
    assert place.query("SELECT leases_lost FROM jobs WHERE job = %s", running) == [(1,)]
    assert place.query("SELECT count(*) FROM leases") == [(0,)]
    assert place.complete(attempt) == ["lost"]


def test_an_older_life_cannot_register_after_a_newer_one(place: Place) -> None:
    place.register(AGAIN)
    with pytest.raises(Fenced, match="w1"):
        place.register(place.worker)
    place.register(AGAIN)  # said again


def test_a_draining_worker_is_granted_nothing_until_it_is_not(place: Place) -> None:
    job = place.submit()
    place.beat(draining=True)
    assert place.try_grant(job).refused == [(job, "worker")]
    place.beat()
    assert place.grant(job)
