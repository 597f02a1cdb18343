"""Nothing outlives the guard, whoever dies and however it tries to get away. All with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.connectors.models import guard

# A program with a child, one in a session of its own, and one whose parent is gone: each of them sleeps for ever.
FAMILY = """
sleep 1000 $NAME & setsid sleep 1000 $NAME & (setsid sleep 1000 $NAME &) ; echo up ; {end}
"""


def sleepers(name: str) -> list[int]:
    """The processes that sleep under this name; the dead are not among them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "sleep" in (process / "comm").read_text() and name in (process / "cmdline").read_text().split("\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.fixture
def name() -> Iterator[str]:
    """A word for command lines by which this test's processes are known; none of them is left behind."""
    name = str(uuid.uuid4().int % 10**6 + 10**6)  # ``sleep`` takes it for seconds
    yield name
    for left in sleepers(name):
        os.kill(left, signal.SIGKILL)


@pytest.fixture
def family(name: str) -> Callable[[str], subprocess.Popen[bytes]]:
    return lambda end: running(FAMILY.replace("$NAME", name).format(end=end))


def running(script: str) -> subprocess.Popen[bytes]:
    """A guarded shell with this script, after it said its first line."""
    argv = guard.guarded(["sh", "-c", script])
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


@pytest.mark.parametrize(("end", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_it_ends_as_the_program_ends_and_takes_its_children_along(family, name, eventually, end, code):
    process = family(end)

    assert process.wait(30) == code
    eventually(lambda: not sleepers(name), 30)


def test_told_to_end_it_kills_the_whole_family(family, name, eventually):
    process = family("sleep 1000")
    eventually(lambda: len(sleepers(name)) == 3, 30)

    guard.end(process)

    assert process.returncode == -signal.SIGKILL
    eventually(lambda: not sleepers(name), 30)


def test_ending_what_has_ended_does_nothing(family):
    process = family("exit 3")
    process.wait(30)

    guard.end(process)

    assert process.returncode == 3


def test_when_its_parent_is_killed_it_kills_the_whole_family(name, eventually):
    script = (
        "import subprocess, sys, time\n"
        "from headwater.connectors.models import guard\n"
        f"subprocess.Popen(guard.guarded(['sh', '-c', {FAMILY.replace('$NAME', name).format(end='wait')!r}]))\n"
        "time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        eventually(lambda: len(sleepers(name)) == 3, 30)

        parent.kill()

        eventually(lambda: not sleepers(name), 30)


def test_a_guard_whose_parent_was_dead_before_it_looked_starts_nothing(tmp_path):
    started = tmp_path / "started"
    argv = guard.guarded(["touch", str(started)])
    argv[argv.index(guard.__file__) + 1] = "1"  # as if its parent had died, and init had taken it

    assert subprocess.run(argv, check=False).returncode == 1
    assert not started.exists()


def test_when_the_guard_itself_is_killed_the_program_goes_too(family, name, eventually):
    process = family(f"exec sleep 1000 {name}")
    eventually(lambda: len(sleepers(name)) == 4, 30)

    process.kill()
    process.wait(30)

    eventually(lambda: len(sleepers(name)) <= 3)  # the program; its children are somebody else's then


def test_what_tidies_up_a_host_does_not_end_it(family, name, eventually):
    process = family("wait")
    eventually(lambda: len(sleepers(name)) == 3, 30)

    for told in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(told)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    guard.end(process)


def test_terminate_lets_the_program_end_in_its_own_way():
    process = running("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done")

    guard.terminate(process)

    assert process.wait(30) == 9


def test_a_program_finds_the_signals_as_it_expects_them():
    process = subprocess.Popen(
        guard.guarded(["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]), stdout=subprocess.PIPE
    )
    masks, _ = process.communicate(timeout=30)

    # nothing is blocked, and ignored is what who began this session ignores (nohup: SIGHUP), but nothing of Python's
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigIgn"))
    pythons = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert [int(line.split()[1], 16) for line in masks.splitlines()] == [0, int(own.split()[1], 16) & ~pythons]


def test_a_program_that_is_not_there_is_told_as_shells_tell_it(capfd):
    assert subprocess.run(guard.guarded(["/no/such/program"]), check=False).returncode == 127
    assert "/no/such/program cannot be run: No such file or directory" in capfd.readouterr().err
