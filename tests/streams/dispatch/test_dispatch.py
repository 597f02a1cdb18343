"""A scheduler on a real catalog and log: what waits is granted, whatever the log says or does not say."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.lag import group_lags
from headwater.observe import job_metrics, metrics
from headwater.schemas.job_records import GrantKind
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED

pytestmark = pytest.mark.stack


def test_what_waits_is_granted_within_the_slots_and_its_worker_is_told(world, eventually):
    world.worker("w", 3)
    jobs = world.post(5)

    with world.scheduling() as dispatch:
        eventually(lambda: len(world.granted()) == 3, within_seconds=30)
        assert world.granted() == set(jobs[:3])
        assert dispatch.state().phase == "running"
        assert len(dispatch.state().partitions) == 24
        told = eventually(lambda: len(world.told()) >= 3 and world.told())
        assert {(one.job, one.epoch, one.worker, one.kind) for one in told} == {
            (job, 1, "w", GrantKind.granted) for job in jobs[:3]
        }
        world.end(jobs[1])
        world.relay()
        eventually(lambda: world.granted() == {jobs[0], jobs[2], jobs[3]})


def test_records_that_never_come_cost_time_only(world, eventually):
    world.worker("w", 1)
    with world.scheduling():
        eventually(world.board, within_seconds=30)
        [first] = world.post()
        eventually(lambda: world.granted() == {first})
        world.end(first)
        [second] = world.post()
        eventually(lambda: world.granted() == {second})
        world.end(second, "queued")
        eventually(lambda: world.states()[second] == ("granted", 2))


def test_records_of_what_is_over_or_nonsense_are_dropped(world, eventually):
    world.worker("w", 1)
    with world.scheduling():
        eventually(world.board, within_seconds=30)
        [job] = world.post()
        eventually(lambda: world.granted() == {job})
        world.end(job)
        world.relay()
        for topic in (JOBS_REQUESTED, JOBS_EVENTS):
            world.say(topic, "p", b"no record")
        [after] = world.post(seconds="many")
        world.relay()
        eventually(lambda: world.granted() == {after})
        assert world.states()[job] == ("completed", 1)


def test_a_worker_more_slots_and_a_pool_that_come_later_are_noticed(world, eventually):
    jobs = world.post(3)
    with world.scheduling():
        board = eventually(world.board, within_seconds=30)
        assert (board.slots, board.queued) == (0, 3)
        assert board.standing("a", 0, time.time_ns() // 1_000, 1.0).starts_in_seconds is None, "without a worker"
        world.worker("w", 1)
        eventually(lambda: world.granted() == {jobs[0]})
        world.query("UPDATE workers SET slots = 2")
        eventually(lambda: world.granted() == set(jobs[:2]))
        world.query("UPDATE workers SET state = 'draining'")
        eventually(lambda: world.board().slots == 0)
        world.end(jobs[0])
        world.pool("q")
        world.worker("v", 1, pool="q")
        [other] = world.post(pool="q")
        eventually(lambda: other in world.granted())
        assert world.states()[jobs[2]] == ("queued", 0), "a worker that drains gets nothing"


def test_a_tenant_s_limit_holds_over_all_pools_and_its_end_is_noticed(world, eventually):
    world.query("INSERT INTO tenants (tenant, max_running) VALUES ('a', 2)")
    world.pool("q")
    world.worker("w", 4)
    world.worker("v", 4, pool="q")
    jobs = [*world.post(3), *world.post(3, pool="q")]
    others = world.post(2, tenant="b")
    with world.scheduling():
        eventually(lambda: set(others) < world.granted() and len(world.granted()) == 4, within_seconds=30)
        eventually(lambda: world.board("q"))
        [ended, _] = sorted(world.granted() - set(others))
        world.end(ended)
        world.relay()
        eventually(lambda: len(world.granted()) == 4)
        assert len(world.granted() & set(jobs)) == 2


def test_the_worker_of_a_job_that_is_cancelled_is_told_to_stop(world, eventually):
    world.worker("w", 1)
    [job] = world.post()
    with world.scheduling():
        eventually(lambda: world.granted() == {job}, within_seconds=30)
        world.query("UPDATE jobs SET state = 'cancelling'")
        world.relay()
        told = eventually(lambda: [one for one in world.told() if one.kind is GrantKind.cancel])
        assert (told[0].job, told[0].epoch, told[0].worker) == (job, 1, "w")


def test_a_job_that_cannot_keep_its_deadline_expires_at_once_with_the_reason(world, eventually):
    soon = datetime.now(UTC) + timedelta(minutes=5)
    [late] = world.post(cost_seconds=600.0, deadline=soon)
    [fits] = world.post(cost_seconds=60.0, deadline=soon)
    with world.scheduling():
        eventually(lambda: world.states()[late][0] == "expired", within_seconds=30)
        [(reason,)] = world.query("SELECT reason FROM jobs WHERE job = %s", late)
        assert "would take about 600 s" in reason
        assert world.states()[fits] == ("queued", 0)


def test_a_flood_of_one_tenant_delays_another_s_few_jobs_by_what_runs_only(world, eventually):
    world.worker("w", 4)
    world.post(500, tenant="flood")
    with world.scheduling():
        eventually(lambda: len(world.granted()) == 4, within_seconds=30)
        few = world.post(10, tenant="few")
        world.relay()
        served = 0
        while not all(world.states()[job][0] == "completed" for job in few):
            running = world.granted()
            assert len(running) <= 4
            for job in running:
                world.end(job)
            served += len(running)
            world.relay()
            eventually(lambda: len(world.granted()) == 4)
        assert served <= 4 + 20 + 4, "what ran, as much as theirs, and one round more"


def test_the_board_says_how_much_waits_and_where(world, eventually):
    world.query("INSERT INTO tenants (tenant, weight) VALUES ('a', 4)")
    world.worker("w", 2)
    world.post(40, cost_seconds=3.0)
    world.post(10, tenant="b", priority=2)
    with world.scheduling():
        board = eventually(lambda: (found := world.board()) and found.queued == 48 and found, within_seconds=30)
        assert (board.slots, board.free, board.tenants["a"].weight) == (2, 0, 4.0)
        assert {one.priority: one.queued for one in board.tenants["b"].classes}.keys() == {2}
        assert board.tenants["a"].queued + board.tenants["b"].queued == 48
        standing = board.standing("a", 0, time.time_ns() // 1_000, 3.0, weight=4.0)
        assert standing.starts_in_seconds is not None
        assert 35 <= standing.position <= 49
        assert job_metrics.JOB_QUEUE_DEPTH.labels("p", "2")._value.get() == board.tenants["b"].queued
        assert job_metrics.JOB_SLOTS.labels("p", "busy")._value.get() == 2
        eventually(lambda: abs(metrics.GROUP_OLDEST_EVENT_TIME.labels("dispatch")._value.get() - time.time()) < 30)
        eventually(lambda: [(one.members, one.records) for one in group_lags(world.kafka, time.time())] == [(1, 0)])
    assert ("p",) not in job_metrics.JOB_WORKERS._metrics, "no longer its own to say"


def test_a_catalog_that_does_not_answer_is_waited_for_and_all_is_read_anew(world, eventually):
    world.worker("w", 1)
    impatient = JobsDatabase(JobsConfig(dsn=world.database.config.dsn, statement_seconds=0.5))
    with impatient, world.scheduling(impatient) as dispatch:
        eventually(world.board, within_seconds=30)
        epoch = world.owner_epoch()
        with world.locked("p"):
            eventually(lambda: dispatch.state().phase == "degraded", within_seconds=30)
            assert "the database of jobs" in dispatch.state().reason
        [job] = world.post()
        eventually(lambda: world.granted() == {job}, within_seconds=30)
        eventually(lambda: dispatch.state().phase == "running")
        assert world.owner_epoch() > epoch, "what became of its last writes was unknown"
