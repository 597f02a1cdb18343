"""Schedulers that come, hang, stand still and die: another takes their pools over, and what they missed is refused."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headwater.connectors.jobs import grants
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.observe import job_metrics
from headwater.rules.errors import Fenced
from headwater.rules.jobs.board import Board
from headwater.streams.dispatch.granting import Granting
from headwater.streams.dispatch.looking import Looking

pytestmark = pytest.mark.stack


def owner_of(world, pool: str = "p") -> int:
    """The process that has the pool."""
    [(name,)] = world.query("SELECT owner FROM pools WHERE pool = %s", pool)
    return int(name.rpartition(" ")[2]) if name else 0


def test_a_scheduler_that_was_overtaken_is_refused_whatever_it_writes(world):
    world.worker("w", 5)
    world.post(2)
    old, new = Looking(world.database, "old"), Looking(world.database, "new")
    stale = old.take_over("p")
    fresh = new.take_over("p")
    assert fresh.epoch == stale.epoch + 1
    world.post(cost_seconds=9_999.0, deadline=datetime.now(UTC) + timedelta(minutes=5))
    for looking, pool in ((old, stale), (new, fresh)):
        looking.look(pool)
        assert len(pool.queue) == 3

    granting = Granting(world.kafka, world.database)
    with pytest.raises(Fenced):
        granting.grant(stale)
    assert {state for state, _ in world.states().values()} == {"queued"}, "neither granted nor expired"
    with pytest.raises(Fenced):
        old.publish(stale, Board(0, 1, 1, 1.0))
    granting.grant(fresh)
    assert sorted(world.states().values()) == [("expired", 0), ("granted", 1), ("granted", 1)]


def test_who_is_overtaken_lets_go_of_the_pool(world, eventually):
    world.pool("q")
    with world.scheduling():
        eventually(lambda: ("p",) in job_metrics.JOB_WORKERS._metrics and world.board("q"), within_seconds=30)
        with world.database.quiet() as transaction:
            epoch = grants.take_over(transaction, "p", "another")
        eventually(lambda: ("p",) not in job_metrics.JOB_WORKERS._metrics)
        let_go, let_go_us = time.monotonic(), world.board("q").at_us
        eventually(lambda: world.board("q").at_us > let_go_us + 2_000_000, within_seconds=30)
        at_once = time.monotonic() - let_go < 8
        assert world.owner_epoch() == epoch or not at_once, "and does not take it back at once"


def test_what_runs_is_known_and_counts_for_its_tenant_after_a_takeover(world):
    world.worker("w", 4)
    world.post(50, tenant="flood")
    granting = Granting(world.kafka, world.database)
    granting.grant(Looking(world.database, "old").take_over("p"))
    world.post(10, tenant="few")

    pool = Looking(world.database, "new").take_over("p")
    assert (pool.slots, pool.free, len(pool.leases), len(pool.queue)) == (4, 0, 4, 56)
    order = [pool.queue.take({"m"}, 0).tenant for _ in range(6)]
    assert order[:4] == ["few"] * 4
    assert "flood" in order


def test_pools_are_shared_when_another_scheduler_comes_and_taken_back_when_it_goes(world, eventually):
    pools = ["p", *(f"q{at}" for at in range(11))]
    for pool in pools[1:]:
        world.pool(pool)
    for pool in pools:
        world.worker(f"w-{pool}", 100, pool=pool)

    def post_everywhere() -> None:
        for pool in pools:
            world.post(2, pool=pool)
        world.relay()

    def all_granted() -> bool:
        return {state for state, _ in world.states().values()} == {"granted"}

    with world.scheduling() as first:
        post_everywhere()
        eventually(all_granted, within_seconds=30)
        with world.scheduling() as second:
            post_everywhere()
            eventually(lambda: len(first.state().partitions) == len(second.state().partitions) == 12, within_seconds=30)
            shares = [{at for _, at in one.state().partitions} for one in (first, second)]
            assert shares[0] | shares[1] == set(range(12)), "the same of both topics"
            post_everywhere()
            eventually(all_granted, within_seconds=30)
        post_everywhere()
        eventually(all_granted, within_seconds=30)
    assert {epoch for _, epoch in world.states().values()} == {1}, "each once"


@pytest.mark.fault
def test_a_scheduler_that_stands_still_is_replaced_does_no_harm_afterwards_and_takes_over_in_its_turn(
    world, eventually
):
    world.worker("w", 2)
    pids = {world.start().pid for _ in range(2)}
    eventually(world.board, within_seconds=30)
    first_jobs = world.post(4)
    world.relay()
    eventually(lambda: len(world.granted()) == 2, within_seconds=30)
    paused = owner_of(world)
    assert paused in pids

    os.kill(paused, signal.SIGSTOP)
    [other] = pids - {paused}
    eventually(lambda: owner_of(world) == other, within_seconds=60)
    for job in first_jobs[:2]:
        world.end(job)
    world.relay()
    eventually(lambda: world.granted() == set(first_jobs[2:]), within_seconds=30)
    os.kill(paused, signal.SIGCONT)
    more = world.post(2)
    world.relay()
    for job in first_jobs[2:]:
        world.end(job)
    world.relay()
    eventually(lambda: world.granted() == set(more), within_seconds=60)

    # Whoever has it now, with the other back in the group or on its way there.
    killed = owner_of(world)
    os.kill(killed, signal.SIGKILL)
    last = world.post(2)
    for job in more:
        world.end(job)
    eventually(lambda: world.granted() == set(last), within_seconds=60)
    assert owner_of(world) in pids - {killed}
    assert {epoch for _, epoch in world.states().values()} == {1}, "nothing was granted twice"


@pytest.mark.fault
def test_a_scheduler_that_hangs_past_the_poll_limit_says_so_and_others_have_its_pools_meanwhile(world, eventually):
    world.pool("z")  # looked at after p
    world.worker("w", 10)
    hasty = Kafka(replace(world.kafka.config, client={"max.poll.interval.ms": 6_000}))
    # The server lets its statement wait for as long as the row is locked: until then it hangs.
    patient = JobsDatabase(replace(world.database.config, statement_seconds=200.0))
    with closing(patient), world.scheduling(database=patient, kafka=hasty) as hung:
        eventually(lambda: world.board("z"), within_seconds=30)
        before = world.owner_epoch()
        with world.locked("z"):
            eventually(world.someone_waits, within_seconds=30)
            world.start()
            eventually(lambda: hung.state().phase == "degraded", within_seconds=30)
            assert "has not answered for" in hung.state().reason
            eventually(lambda: world.owner_epoch() > before, within_seconds=60)
            assert owner_of(world) != os.getpid()
        jobs = world.post(2)
        world.relay()
        eventually(lambda: world.granted() == set(jobs), within_seconds=60)
        eventually(lambda: hung.state().phase == "running" and len(hung.state().partitions) == 12, within_seconds=60)
