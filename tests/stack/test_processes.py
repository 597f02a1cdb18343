"""The supervisor of detached processes, against real processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from headwater.rules.errors import NotFound
from headwater.stack import processes

FOREVER = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n",
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in processes.names(tmp_path):
        processes.stop(name, tmp_path, grace_seconds=0)


def start(name: str, home: Path, argv: list[str] = FOREVER) -> processes.Running:
    return processes.start_detached(name, argv, os.environ, home)


def log_text(name: str, home: Path) -> str:
    return processes.log_path(name, home).read_text(encoding="utf-8")


def test_a_started_member_runs_in_another_session_and_writes_to_its_log(
    home: Path, eventually: Callable[..., object]
) -> None:
    running = start("member", home)

    assert processes.alive("member", home) == running
    assert os.getsid(running.pid) != os.getsid(0)
    eventually(lambda: "started" in log_text("member", home))


def test_a_member_outlives_the_command_that_started_it(home: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from headwater.stack import processes\n"
        f"processes.start_detached('member', {FOREVER!r}, os.environ, pathlib.Path(sys.argv[1]))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(home)], check=True)

    running = processes.alive("member", home)
    assert running is not None
    assert psutil.Process(running.pid).ppid() != os.getpid()


def test_starting_a_living_member_leaves_it_as_it_is(home: Path) -> None:
    first = start("member", home)
    assert start("member", home) == first


def test_two_starts_at_once_start_one_process(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        pids = set(pool.map(lambda _: start("member", home).pid, range(8)))
    assert len(pids) == 1


def test_stop_ends_the_process_and_a_second_stop_finds_nothing(home: Path) -> None:
    running = start("member", home)

    assert processes.stop("member", home) is True
    assert processes.birth(running.pid) is None
    assert processes.stop("member", home) is False
    assert processes.names(home) == []


def test_a_killed_member_is_not_alive_and_can_be_started_again(home: Path, eventually: Callable[..., object]) -> None:
    first = start("member", home)
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: processes.alive("member", home) is None)

    assert start("member", home).pid != first.pid


def test_a_member_that_ignores_sigterm_is_killed_with_its_children_after_the_grace(
    home: Path, eventually: Callable[..., object]
) -> None:
    running = start("member", home, STUBBORN)
    eventually(lambda: log_text("member", home).strip())
    child = int(log_text("member", home))

    processes.stop("member", home, grace_seconds=0.2)

    assert processes.birth(running.pid) is None
    eventually(lambda: processes.birth(child) is None)


def test_a_pid_file_never_leads_to_a_stranger_with_the_same_pid(home: Path) -> None:
    stranger = subprocess.Popen(FOREVER, stdout=subprocess.PIPE)
    assert stranger.stdout is not None
    stranger.stdout.readline()  # it is up: the kernel's clock of births has ticked since
    running = start("member", home)
    try:
        path = processes.pid_path("member", home)
        recorded = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**recorded, "pid": stranger.pid}), encoding="utf-8")

        assert processes.alive("member", home) is None
        assert processes.stop("member", home) is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()
        os.kill(running.pid, signal.SIGKILL)


def test_a_torn_pid_file_counts_as_not_running(home: Path) -> None:
    path = processes.pid_path("member", home)
    path.parent.mkdir()
    path.write_text('{"pid": 1', encoding="utf-8")
    assert processes.alive("member", home) is None


def test_a_program_that_does_not_exist_is_named(home: Path) -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        start("member", home, ["no-such-program"])
    assert processes.names(home) == []


def test_the_environment_is_exactly_the_one_given(home: Path, eventually: Callable[..., object]) -> None:
    environment = {"ONLY": "this", "PATH": os.defpath}
    processes.start_detached("member", ["/bin/sh", "-c", "env; exec sleep 600"], environment, home)
    eventually(lambda: "ONLY=this" in log_text("member", home))
    assert "HOME=" not in log_text("member", home)
