"""Everybody at once: schedulers, workers in several lives, owners and sweepers move the same jobs, in threads.

What each thread does follows from its seed; how they interleave does not. A run that fails prints its seed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from threading import Lock

import pytest

from headwater.connectors.jobs import ends, expiry, grants, leases, results
from headwater.connectors.jobs.ends import Move
from headwater.connectors.jobs.grants import Wish
from headwater.connectors.jobs.leases import Beat
from headwater.connectors.jobs.results import EndOutcome, Failure, Result, Stopped
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.rules.errors import Fenced
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.states import TRANSITIONS, JobState
from tests.any_job import TERM, Place

DEEP = os.environ.get("HEADWATER_HYPOTHESIS") == "deep"
SEEDS = range(20) if DEEP else range(3)
THREADS, STEPS, JOBS = 6, 400 if DEEP else 50, 12
POLICY = FailurePolicy(transient_budget=4, lease_budget=4, wait_seconds=0.0, longest_wait_seconds=0.0)


@dataclass
class World:
    """What all threads know, and what they were told."""

    place: Place
    jobs: list[str]
    attempts: list[tuple[AttemptId, Holder]] = field(default_factory=list)
    lives: list[int] = field(default_factory=lambda: [1, 1, 1])
    won: list[AttemptId] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def some_attempts(self, random: Random) -> tuple[Holder, list[AttemptId]]:
        """A few of one holder's, new ones mostly; in no order, as a worker's requests are."""
        with self.lock:
            if not self.attempts:
                return Holder("w0", 1), []
            _, holder = random.choice(self.attempts[-12:])
            mine = [id for id, owner in self.attempts if owner == holder][-6:]
        random.shuffle(mine)
        return holder, mine[: random.randint(1, 4)]


def step(world: World, random: Random) -> None:
    random.choice(STEPS_OF_ALL)(world, random)


def grant(world: World, random: Random) -> None:
    place = world.place
    with world.lock:
        wishes = [
            Wish(job, f"w{number}", world.lives[number])
            for job in random.sample(world.jobs[-JOBS:], 5)
            for number in [random.randrange(3)]
        ]
    with place.jobs.quiet() as transaction:
        told = grants.grant_batch(transaction, place.pool, place.owner_epoch, wishes, TERM)
    holders = {wish.job: Holder(wish.worker, wish.incarnation) for wish in wishes}
    with world.lock:
        world.attempts += [(id, holders[id.job]) for id in told.granted]


def post(world: World, random: Random) -> None:
    if random.random() < 0.5:
        job = world.place.submit(webhook_url="https://example.org/")
        with world.lock:
            world.jobs.append(job)


def take_over(world: World, _: Random) -> None:
    with world.place.jobs.transaction() as transaction:
        world.place.owner_epoch = grants.take_over(transaction, world.place.pool, "another")


def claim(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    with world.place.jobs.autocommit() as transaction:
        leases.claim(transaction, holder, ids, TERM)


def beat(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    checkpoint = {"key": "k", "step": 1, "epoch": 1} if random.random() < 0.3 else None
    beats = [
        Beat(job=id.job, epoch=id.epoch, step=random.randrange(9), steps=9, stage="generating", checkpoint=checkpoint)
        for id in ids
    ]
    with world.place.jobs.quiet() as transaction:
        leases.beat(transaction, holder, beats, TERM, draining=False)


def complete(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    given = [Result(*id, {"key": f"r/{id.job}/{id.epoch}/video.mp4"}, 1.0) for id in ids]
    with world.place.jobs.transaction() as transaction:
        told = results.complete(transaction, holder, given)
    with world.lock:
        world.won += [id for id, outcome in told.items() if outcome is EndOutcome.won]


def fail(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    code = random.choice(["node", "crashed", "invalid_input"])
    given = [
        Failure(job=id.job, epoch=id.epoch, code=code, message="m", log_tail="", gpu_seconds=1.0) for id in ids[:1]
    ]
    with world.place.jobs.transaction() as transaction:
        results.fail(transaction, holder, given, POLICY, lambda: 0.0)


def release(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    given = [Beat(job=id.job, epoch=id.epoch, step=1, steps=9, stage="generating") for id in ids]
    with world.place.jobs.transaction() as transaction:
        results.release(transaction, holder, given)


def stop(world: World, random: Random) -> None:
    holder, ids = world.some_attempts(random)
    with world.place.jobs.transaction() as transaction:
        results.stopped(transaction, holder, [Stopped(*id, 1.0) for id in ids])


def cancel(world: World, random: Random) -> None:
    if random.random() < 0.2:
        world.place.cancel(random.choice(world.jobs[-JOBS:]))


def sweep(world: World, random: Random) -> None:
    """Some leases end now, as if their time were over; and one job's deadline."""
    world.place.query("UPDATE leases SET expires_at = now() WHERE job = %s", random.choice(world.jobs[-JOBS:]))
    if random.random() < 0.1:
        world.place.query("UPDATE jobs SET deadline = now() WHERE job = %s", world.jobs[-1])
    with world.place.jobs.quiet() as transaction:
        expiry.expire_leases(transaction, POLICY)
    with world.place.jobs.quiet() as transaction:
        expiry.expire_deadlines(transaction)


def restart(world: World, random: Random) -> None:
    if random.random() < 0.2:
        number = random.randrange(3)
        with world.lock:
            world.lives[number] += 1
            life = world.lives[number]
        world.place.register(Holder(f"w{number}", life), slots=6)


STEPS_OF_ALL: list[Callable[[World, Random], None]] = [
    grant, grant, grant, claim, claim, claim, beat, beat, complete, fail, release, stop, cancel, sweep, restart,
    take_over, post, post, post,
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_races_each_job_has_one_history(place: Place, seed: int) -> None:
    world = World(place, [place.submit(webhook_url="https://example.org/") for _ in range(JOBS)])
    for number in range(3):
        place.register(Holder(f"w{number}", 1), slots=6)

    def run(thread: int) -> None:
        random = Random(f"{seed} {thread}")
        for _ in range(STEPS):
            try:
                step(world, random)
            except Fenced:
                continue  # another scheduler, or life: as it should be

    with ThreadPoolExecutor(THREADS) as pool:
        for one in [pool.submit(run, thread) for thread in range(THREADS)]:
            one.result()

    print(f"seed {seed}: {len(world.attempts)} attempts, {len(world.won)} results told as won")
    check_histories(place)
    check_leases_and_attempts(place)
    end_all(place)
    check_histories(place)
    check_effects(place, world)


def check_histories(place: Place) -> None:
    """The outbox, which nobody relays here, is the history of every job."""
    histories: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for job, version, state, epoch in place.query(
        "SELECT job, version, state, epoch FROM outbox ORDER BY job, version"
    ):
        histories[job].append((version, state, epoch))
    for job, told in histories.items():
        assert [version for version, _, _ in told] == list(range(1, len(told) + 1)), job
        for (_, before, epoch), (_, after, next_epoch) in pairwise(told):
            assert JobState(after) in TRANSITIONS[JobState(before)], (job, before, after)
            assert next_epoch - epoch == (after == "granted"), (job, told)
    states = dict(place.query("SELECT job, state FROM jobs"))
    assert {job: told[-1][1] for job, told in histories.items()} == states


def check_leases_and_attempts(place: Place) -> None:
    held = place.query("SELECT job, epoch FROM jobs WHERE state IN ('granted', 'running', 'cancelling') ORDER BY job")
    assert place.query("SELECT job, epoch FROM leases ORDER BY job") == held
    assert place.query("SELECT job, epoch FROM attempts WHERE ended_at IS NULL ORDER BY job") == held
    assert place.query("SELECT job, epoch FROM attempts WHERE (outcome IS NULL) <> (ended_at IS NULL)") == []
    counted = place.query("SELECT job, count(*) FROM attempts GROUP BY job ORDER BY job")
    assert counted == place.query("SELECT job, epoch FROM jobs WHERE epoch > 0 ORDER BY job")


def check_effects(place: Place, world: World) -> None:
    completed = place.query("SELECT job, result_epoch FROM jobs WHERE state = 'completed' ORDER BY job")
    assert place.query("SELECT job, epoch FROM charges ORDER BY job") == completed
    assert sorted(set(world.won)) == completed
    assert place.query("SELECT job FROM jobs WHERE result ->> 'key' <> format('r/%s/%s/video.mp4', job, epoch)") == []
    outcomes = place.query("SELECT job, epoch FROM attempts WHERE outcome = 'completed' ORDER BY job")
    assert outcomes == completed
    assert sum(row[0] for row in place.query("SELECT jobs FROM usage")) == len(completed)
    types = place.query("SELECT job, type FROM deliveries ORDER BY job")
    assert types == place.query("SELECT job, 'video.' || state FROM jobs ORDER BY job")


def end_all(place: Place) -> None:
    """None is stuck: whatever state it is in, a job can still end."""
    open_jobs = [row[0] for row in place.query("SELECT job FROM jobs WHERE completed_at IS NULL")]
    for job in open_jobs:
        place.cancel(job)
    with place.jobs.transaction() as transaction:
        stuck = ends.hold(transaction, open_jobs, [JobState.cancelling])
        ending = ends.Ending(outcome="cancelled")
        ends.move(transaction, [Move(one.job, one.epoch, JobState.cancelled, "it stopped", ending) for one in stuck])
    assert place.query("SELECT job FROM jobs WHERE completed_at IS NULL") == []
