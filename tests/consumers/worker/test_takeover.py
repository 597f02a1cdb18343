"""Workers that are killed, stopped, cut off or told to go: a job has one result, whatever happens to whom.

The numbers are those of the cases in docs/cases.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

Eventually = Callable[..., Any]
STEP_SECONDS = 0.25


@pytest.fixture
def lease_seconds() -> float:
    return 2.0


def begun(site: Any, job: str) -> bool:
    """The model has made a step of it, and a beat told so."""
    lease = site.lease(job)
    return lease is not None and lease[0] > 0


@pytest.mark.parametrize("lease_seconds", [3.0])
def test_case_1_a_job_of_three_leases_with_beats_has_one_attempt(site: Any, eventually: Eventually) -> None:
    site.testcard()
    job = site.submit_card(seconds=4, step_seconds=0.3)  # 32 steps
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: site.job(job).state == "completed", 60)
    (attempt,) = site.attempts(job)
    assert (attempt.ended_at - attempt.claimed_at).total_seconds() > 3 * site.lease_seconds


def test_cases_1_and_9_of_a_worker_that_stands_still_the_job_goes_on_elsewhere_and_its_own_result_is_refused(
    site: Any, eventually: Eventually
) -> None:
    stopped = site.testcard("w1")
    job = site.submit_card(seconds=3, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)

    stopped.send_signal(signal.SIGSTOP)  # its model goes on and finishes
    eventually(lambda: site.job(job).state == "queued", 30)
    assert site.attempts(job)[0].outcome == "lease_lost"
    site.testcard("w2")
    eventually(lambda: site.grant(job, worker="w2"), 30)
    eventually(lambda: site.job(job).state == "completed", 60)
    stopped.send_signal(signal.SIGCONT)

    eventually(lambda: site.log("w1").count("worker.registered") == 2, 30)
    run(site, eventually, "w1")
    assert site.job(job).result_epoch == 2
    assert [attempt.outcome for attempt in site.attempts(job)] == ["lease_lost", "completed"]
    log = site.log("w1")
    assert "worker.stood_still" in log
    assert '"said": "Completed"' not in log.partition("worker.stood_still")[2].partition("worker.registered")[0]


def test_case_4_each_death_is_noticed_within_the_lease_and_the_job_goes_on_where_it_was(
    site: Any, eventually: Eventually
) -> None:
    job = site.submit_card(seconds=3, step_seconds=STEP_SECONDS)
    for name, step in (("w1", 8), ("w2", 16)):
        worker = site.testcard(name)
        eventually(lambda name=name: site.grant(job, worker=name), 30)
        eventually(lambda step=step: (site.job(job).checkpoint or {"step": 0})["step"] == step, 60)
        worker.kill()
        worker.wait()
        eventually(lambda: site.job(job).state == "queued", 30)
    site.testcard("w3")
    eventually(lambda: site.grant(job, worker="w3"), 30)
    eventually(lambda: site.job(job).state == "completed", 60)

    attempts = site.attempts(job)
    assert [attempt.outcome for attempt in attempts] == ["lease_lost", "lease_lost", "completed"]
    assert [attempt.resumed_step for attempt in attempts] == [None, 8, 16]
    assert site.job(job).result["frames"] == 24


def test_case_4_a_worker_that_is_started_again_ends_what_it_held_at_once(site: Any, eventually: Eventually) -> None:
    worker = site.testcard()
    job = site.submit_card(seconds=60, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)
    site.no_lease_ends()
    worker.kill()
    worker.wait()
    site.testcard()
    eventually(lambda: site.job(job).state == "queued", 30)


@pytest.mark.parametrize("lease_seconds", [6.0])
def test_case_5_a_worker_that_drains_lets_finish_what_can(site: Any, eventually: Eventually) -> None:
    worker = site.testcard(drain_seconds=60.0)
    job = site.submit_card(seconds=2, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert site.job(job).state == "completed"
    assert len(site.attempts(job)) == 1
    assert site.grant(site.submit_card()) == []  # nobody is there who takes jobs


@pytest.mark.parametrize("lease_seconds", [6.0])
def test_case_5_a_worker_that_drains_gives_back_with_a_checkpoint_what_takes_too_long(
    site: Any, eventually: Eventually
) -> None:
    worker = site.testcard(drain_seconds=0.5)
    job = site.submit_card(seconds=3, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: (site.lease(job) or (0,))[0] >= 9, 30)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert site.job(job).state == "queued"
    (attempt,) = site.attempts(job)
    assert attempt.outcome == "released"
    site.testcard("w2")
    eventually(lambda: site.grant(job, worker="w2"), 30)
    eventually(lambda: site.job(job).state == "completed", 60)
    assert site.attempts(job)[1].resumed_step >= 8


def test_a_worker_that_dies_leaves_no_process_behind(site: Any, eventually: Eventually) -> None:
    worker = site.testcard(slots=2)
    job = site.submit_card(seconds=60, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)
    hosts = descendants(worker.pid)
    assert len(hosts) >= 2
    worker.kill()
    worker.wait()
    eventually(lambda: not [pid for pid in hosts if alive(pid)], 30)


def test_a_worker_that_is_cut_off_for_less_than_its_cap_keeps_what_it_made(site: Any, eventually: Eventually) -> None:
    site.testcard(relayed=True, cut_off_terms=60.0)
    job = site.submit_card(seconds=2, step_seconds=0.1)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)
    site.no_lease_ends()
    site.endpoint.refuse()
    eventually(lambda: '"request": "ends"' in site.log("w1"), 60)  # it is done, and nobody hears it

    site.endpoint.heal()

    eventually(lambda: site.job(job).state == "completed", 30)
    assert len(site.attempts(job)) == 1


def test_a_worker_that_is_cut_off_for_longer_stops_computing(site: Any, eventually: Eventually) -> None:
    site.testcard(relayed=True, cut_off_terms=1.0)
    job = site.submit_card(seconds=60, step_seconds=STEP_SECONDS)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: begun(site, job), 30)
    site.endpoint.stall()
    eventually(lambda: '"why": "lost"' in site.log("w1"), 30)
    eventually(lambda: site.job(job).state == "queued", 30)

    site.endpoint.heal()

    run(site, eventually, "w1")  # its slot is free, and it takes jobs again


@pytest.mark.parametrize("lease_seconds", [3.0])
def test_while_s3_is_away_results_are_kept_and_beats_go_on(site: Any, eventually: Eventually) -> None:
    site.testcard(relayed=True)
    eventually(lambda: site.is_there("w1"), 30)
    site.s3.refuse()
    job = site.submit_card()
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: "worker.waits_for_s3" in site.log("w1"), 60)
    until = time.monotonic() + 2 * site.lease_seconds
    eventually(lambda: time.monotonic() > until, 30)  # beats alone keep the lease
    assert site.job(job).state == "running"

    site.s3.heal()

    eventually(lambda: site.job(job).state == "completed", 60)
    assert len(site.attempts(job)) == 1


def run(site: Any, eventually: Eventually, worker: str) -> None:
    """The worker runs a job, however often it must be granted."""
    job = site.submit_card()
    eventually(lambda: site.job(job).state == "completed" or (site.grant(job, worker=worker) and False), 60)


def descendants(pid: int) -> list[int]:
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [one for child in map(int, children) for one in (child, *descendants(child))]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
