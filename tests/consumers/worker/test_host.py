"""The process that runs a model, as its supervisor sees it: told what to do, stopped, crashed, hung, and left alone."""

from __future__ import annotations

import json
import queue
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headwater.connectors.models.protocol import log_tail
from headwater.consumers.worker.hosts import HostDied, Hosts, HostSaid
from headwater.consumers.worker.messages import (
    Checkpoint,
    Generate,
    Hello,
    HostWork,
    Loaded,
    LoadFailed,
    Result,
    Results,
    Steps,
    Stop,
)

WAIT_SECONDS = 60


class Seen:
    """One host of a worker, and what came of it."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.folder = folder
        self._events: queue.Queue[HostSaid | HostDied] = queue.Queue()
        self.hosts = Hosts(spec, self._events.put)
        self.number = self.hosts.start()

    def next(self) -> Any:
        event = self._events.get(timeout=WAIT_SECONDS)
        return event.message if isinstance(event, HostSaid) else event

    def until(self, *kinds: type) -> Any:
        """The next event of one of these kinds."""
        while not isinstance(event := self.next(), kinds):
            pass
        return event

    def generate(self, *jobs: str, epoch: int = 1, **asked: Any) -> None:
        works = []
        for job in jobs:
            (self.folder / job).mkdir(exist_ok=True)
            fields = {"prompt": "a red fox", "seconds": 2, "size": "64x64", "folder": str(self.folder / job), **asked}
            works.append(HostWork(job=job, epoch=epoch, **fields))
        self.hosts.send(self.number, Generate(tuple(works)))

    def stop(self, *jobs: str, checkpoint: bool = False) -> None:
        self.hosts.send(self.number, Stop(tuple((job, 1) for job in jobs), checkpoint))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., Seen]]:
    started: list[Seen] = []

    def start(model: str, **options: Any) -> Seen:
        started.append(Seen({"model": model, "options": options}, tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.hosts.close()


def ended(results: Results) -> dict[str, str]:
    return {result.job: result.kind.value for result in results.results}


def test_it_says_what_it_can_loads_and_tells_each_step(host):
    seen = host("testcard")
    assert isinstance(hello := seen.next(), Hello)
    assert "64x64" in hello.capabilities["sizes"]
    assert isinstance(seen.next(), Loaded)

    seen.generate("a")

    steps = []
    while isinstance(event := seen.next(), (Steps, Checkpoint)):
        steps += [event.steps[0][2:]] if isinstance(event, Steps) else []
    assert steps == [(0, 0)] + [(step, 16) for step in range(1, 17)]
    assert isinstance(event, Results)
    (result,) = event.results
    assert (result.kind, result.epoch, Path(result.path).is_file()) == ("done", 1, True)
    assert result.gpu_seconds > 0


def test_of_a_batch_one_may_be_stopped_and_the_time_is_shared(host):
    seen = host("noop", seconds=1.0)
    seen.until(Loaded)

    seen.generate("a", "b", size="16x16", seconds=1)
    seen.until(Steps)
    seen.stop("a")

    results = seen.until(Results)
    assert ended(results) == {"a": "stopped", "b": "done"}
    assert sum(result.gpu_seconds for result in results.results) >= 1.0


def test_who_is_to_leave_says_its_checkpoint_first(host):
    seen = host("testcard", step_seconds=0.01, checkpoint_groups=100)
    seen.until(Loaded)
    seen.generate("a", seconds=60)
    while seen.until(Steps).steps[0][2] < 9:
        pass

    seen.stop("a", checkpoint=True)

    saved = seen.until(Checkpoint, Results)
    assert isinstance(saved, Checkpoint)
    assert (saved.job, saved.epoch, saved.step % 8, Path(saved.path).is_file()) == ("a", 1, 0, True)
    assert ended(seen.until(Results)) == {"a": "stopped"}


def test_a_model_that_crashes_takes_its_process_and_leaves_its_log(host):
    seen = host("testcard", faults=True)
    seen.generate("a", parameters={"crash_at_step": 3})

    assert seen.until(HostDied) == HostDied(seen.number, -signal.SIGSEGV)
    assert "Segmentation fault" in log_tail(seen.folder / "a")


def test_a_model_that_the_kernel_kills_is_seen_as_such(host):
    seen = host("testcard", faults=True)
    seen.generate("a", parameters={"killed_at_step": 1})

    assert seen.until(HostDied) == HostDied(seen.number, -signal.SIGKILL)


def test_an_exception_is_a_failure_with_a_code_and_its_stack_in_the_log(host):
    seen = host("testcard", faults=True)
    seen.generate("a", parameters={"oom_at_step": 1})

    (failed,) = seen.until(Results).results
    assert (failed.kind, failed.code) == ("failed", "out_of_memory")
    assert log_tail(seen.folder / "a").endswith("MemoryError")
    seen.generate("b")
    assert ended(seen.until(Results)) == {"b": "done"}


def test_after_a_failure_of_the_driver_the_process_goes(host):
    seen = host("testcard", faults=True)
    seen.generate("a", parameters={"fail_at_step": 0, "fail_code": "driver"})

    assert seen.until(Results).results[0].code == "driver"
    assert seen.next() == HostDied(seen.number, 0)


def test_in_a_batch_nobody_reads_anothers_words(host):
    seen = host("testcard", faults=True, max_batch=2)
    seen.generate("a", "b", parameters={"fail_at_step": 1})

    results: tuple[Result, ...] = seen.until(Results).results
    assert {result.message for result in results} == {"The batch that it ran in failed: ModelError."}
    assert [log_tail(seen.folder / job) for job in "ab"] == ["", ""]


def test_a_model_that_cannot_be_loaded_says_why(host):
    capabilities = {"sizes": ["64x64"], "max_seconds": 1, "gpu_seconds_per_second": {"64x64": 1}}
    seen = host("command", command=["/no/such/program"], capabilities=capabilities)

    failed = seen.until(LoadFailed)

    assert (failed.code, "/no/such/program" in failed.message) == ("model_unavailable", True)
    assert isinstance(seen.next(), HostDied)


@pytest.mark.parametrize("fault", [{"hang_at_step": 2}, {"hold_at_step": 2, "hold_seconds": 600}])
def test_a_model_that_hangs_or_holds_the_interpreter_is_killed_all_the_same(host, fault):
    seen = host("testcard", faults=True)
    seen.generate("a", parameters=fault)
    while seen.until(Steps).steps[0][2] < 2:
        pass

    seen.stop("a")
    seen.hosts.kill(seen.number)

    assert seen.until(HostDied) == HostDied(seen.number, -signal.SIGKILL)


def test_it_leaves_it_to_its_supervisor_when_to_end(host):
    seen = host("testcard")
    seen.until(Loaded)
    for process in psutil.Process().children(recursive=True):
        for told in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if "headwater.consumers.worker.host" in process.cmdline():
                process.send_signal(told)

    seen.generate("a")

    assert ended(seen.until(Results)) == {"a": "done"}


def test_a_program_of_a_model_learns_none_of_our_keys(host, monkeypatch):
    monkeypatch.setenv("HEADWATER_WORKER__KEY", "ours")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    capabilities = {"sizes": ["64x64"], "max_seconds": 8, "gpu_seconds_per_second": {"64x64": 1}}
    seen = host("command", command=["sh", "-c", 'env > "$1"', "sh", "{output}"], capabilities=capabilities)
    seen.generate("a")

    said = Path(seen.until(Results).results[0].path).read_text()

    assert "CUDA_VISIBLE_DEVICES=3" in said
    assert "ours" not in said


SUPERVISOR = """
import sys, time
from headwater.consumers.worker.hosts import Hosts
from headwater.consumers.worker.messages import Generate, HostWork, Steps
def tell(event):
    message = getattr(event, "message", None)
    if isinstance(message, Steps) and message.steps[0][2] == 2:
        print("at step 2", flush=True)
hosts = Hosts({"model": "testcard", "options": {"faults": True}}, tell)
work = HostWork(job="a", epoch=1, prompt="x", seconds=2, size="64x64", folder=sys.argv[1],
                parameters={"hold_at_step": 2, "hold_seconds": 600})
hosts.send(hosts.start(), Generate((work,)))
time.sleep(600)
"""


def test_nothing_is_left_of_a_worker_that_was_killed_while_its_model_held_the_interpreter(tmp_path, eventually):
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"at step 2\n"
        family = psutil.Process(supervisor.pid).children(recursive=True)
        assert len(family) == 2  # the guard and the host

        supervisor.kill()

    eventually(lambda: not any(lives(one) for one in family), 30)


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_supervisor_that_dies_without_having_read_all_leaves_no_traceback(tmp_path):
    ours, theirs = socket.socketpair()
    spec = json.dumps({"model": "noop", "options": {}})
    with (tmp_path / "said").open("wb") as said, theirs:
        command = [sys.executable, "-m", "headwater.consumers.worker.host", str(theirs.fileno()), spec]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=said, stderr=said)
    with ours:
        assert select.select([ours], [], [], WAIT_SECONDS)[0], "it said what it can"

    assert process.wait(WAIT_SECONDS) == 0
    assert (tmp_path / "said").read_text() == ""
