"""Runs a program so that it, and everything that it starts, ends no later than the process that wanted it. Linux.

    guard ─► program ─► whatever it starts, also in sessions and process groups of its own

The guard is a process between the two. It is the *subreaper* of all that descends from it (prctl(2),
PR_SET_CHILD_SUBREAPER): whoever loses its parent becomes its child, so nobody escapes it. It ends

- with the program, as the program ended (same exit code or signal), after it has killed what is left;
- when its own parent is gone, by the signal that the kernel sends then (PR_SET_PDEATHSIG): it kills everything;
- when it is told to (``end``): the same.

The guard never waits for anything but signals, so no model can block it. Killed itself, it takes the program along.
It runs from this file alone, on the standard library: it is up in a few hundredths of a second.

The kernel's "parent" is the *thread* that started the guard: start it from one that lives as long.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_END = signal.SIGUSR2
_TERMINATE = signal.SIGUSR1
_NOT_FOUND = 127
_LAST_SECONDS = 2.0
"""So long are those awaited that were killed. Who is stuck in the kernel longer holds up nobody."""


def guarded(argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` under a guard, to be started by this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Sends SIGTERM to the guarded program's process group, so that it can end in its own way."""
    process.send_signal(_TERMINATE)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills the guarded program with all that it started, and returns when they are gone."""
    process.send_signal(_END)
    try:
        process.wait(2 * _LAST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _main(parent: int, argv: Sequence[str]) -> NoReturn:
    waited_for = {signal.SIGCHLD, _END, _TERMINATE}
    # Whoever tidies up a host sends these to everybody on it: the parent says when it is time.
    signal.pthread_sigmask(signal.SIG_BLOCK, waited_for | {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    _prctl(_PR_SET_PDEATHSIG, _END)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:  # it died before the kernel knew what to do then
        sys.exit(1)
    program = _start(argv)
    status = None
    while status is None:
        told = signal.sigwait(waited_for)
        if told == _TERMINATE:
            with suppress(ProcessLookupError):
                os.killpg(program, signal.SIGTERM)
        elif told == _END:
            break
        else:
            status = _reaped(program)
    status = _kill_all(program, status)
    _end_as(status)


def _start(argv: Sequence[str]) -> int:
    guard = os.getpid()
    program = os.fork()
    if program:
        return program
    try:
        os.setpgid(0, 0)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python: a program expects the defaults
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(argv[0], list(argv))
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be run: {error.strerror}\n".encode())
    os._exit(_NOT_FOUND)


def _reaped(program: int, status: int | None = None) -> int | None:
    """Buries who has died; the program's wait status once it is among them."""
    with suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] == program:
                status = dead[1]
    return status


def _kill_all(program: int, status: int | None) -> int:
    """Kills all that descends from the guard: whose parent was killed comes to the guard, and is next."""
    deadline = time.monotonic() + _LAST_SECONDS
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.002)
        status = _reaped(program, status)
    return signal.SIGKILL if status is None else status


def _children() -> list[int]:
    """Who has the guard for a parent, the dead that nobody buried yet included."""
    children = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():  # field 4 of proc_pid_stat(5)
                    children.append(int(name))
    return children


def _end_as(status: int) -> NoReturn:
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its core already
    died_of = os.WTERMSIG(status)
    if died_of != signal.SIGKILL:
        signal.signal(died_of, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), died_of)
    sys.exit(128 + died_of)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
