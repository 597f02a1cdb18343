"""Models at their worst, end to end: what hangs, crashes, holds the interpreter or leaves programs behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Eventually = Callable[..., Any]

PROGRAM = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
with open(sys.argv[1], "w") as said:
    said.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1], sys.argv[1] + ".done")
print("step 1/2", flush=True)
time.sleep(1000)
"""
CAPABILITIES = {"sizes": ["64x64"], "max_seconds": 8, "gpu_seconds_per_second": {"64x64": 1.0}}


@pytest.mark.parametrize("lease_seconds", [4.0])  # a busy machine must not make a beat late
def test_a_model_that_holds_the_interpreter_for_two_leases_keeps_its_only_attempt(
    site: Any, eventually: Eventually
) -> None:
    """Case 2 of the notes (dramatiq#692): beats come from a process that the model cannot block."""
    site.testcard(options={"step_limit_seconds": 60})
    job = site.submit_card(seconds=1, hold_at_step=4, hold_seconds=2 * site.lease_seconds)
    eventually(lambda: site.grant(job), 60)

    view = eventually(lambda: (view := site.job(job)).state.final and view, 120)

    assert (view.state, view.epoch) == ("completed", 1)
    assert [attempt.outcome for attempt in site.attempts(job)] == ["completed"]


def test_an_input_that_crashes_the_model_again_and_again_is_set_aside(site: Any, eventually: Eventually) -> None:
    site.testcard()
    job = site.submit_card(crash_at_step=1)

    eventually(lambda: site.grant(job) or site.job(job).state.final, 60)
    eventually(lambda: (site.grant(job), site.job(job).state.final)[1], 120)

    view = site.job(job)
    assert (view.state, view.error_code) == ("failed", "repeated_crash")
    assert [attempt.code for attempt in site.attempts(job)] == ["crashed"] * 3
    assert all("Segmentation fault" in attempt.log_tail for attempt in site.attempts(job))
    other = site.submit_card()
    eventually(lambda: site.grant(other), 60)
    eventually(lambda: site.job(other).state == "completed", 60)  # the worker is none the worse


def test_a_model_that_ran_out_of_memory_is_tried_again_and_says_so(site: Any, eventually: Eventually) -> None:
    site.testcard()
    job = site.submit_card(oom_at_step=1, until_epoch=1)

    eventually(lambda: (site.grant(job), site.job(job).state.final)[1], 120)

    assert site.job(job).state == "completed"
    first, second = site.attempts(job)
    assert (first.outcome, first.code, second.outcome) == ("failed", "out_of_memory", "completed")
    assert first.log_tail.endswith("MemoryError")


def started(site: Any, eventually: Eventually) -> tuple[Any, str, list[int]]:
    """A worker whose model is a program with a child in a session of its own: worker, job, and the two."""
    said = site.folder / "said"
    options = {"command": [sys.executable, "-c", PROGRAM, str(said)], "capabilities": CAPABILITIES}
    worker = site.worker("command", options=options)
    job = site.submit("command", "64x64", "1", parameters={})
    eventually(lambda: site.grant(job), 60)
    done = Path(f"{said}.done")
    eventually(done.exists, 60)
    return worker, job, [int(pid) for pid in done.read_text().split()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_cancelled_program_is_gone_with_all_that_it_started_before_the_proof_is_told(
    site: Any, eventually: Eventually
) -> None:
    _, job, family = started(site, eventually)

    site.cancel(job)

    eventually(lambda: site.job(job).state == "cancelled", 60)
    assert not any(lives(one) for one in family)


def test_nothing_runs_on_when_the_worker_is_killed(site: Any, eventually: Eventually) -> None:
    worker, job, family = started(site, eventually)
    assert all(lives(one) for one in family)

    os.kill(worker.pid, signal.SIGKILL)

    eventually(lambda: not any(lives(one) for one in family), 30)
    eventually(lambda: site.job(job).state == "queued", 60)
    assert [attempt.outcome for attempt in site.attempts(job)] == ["lease_lost"]
