"""Detached processes with pid files: they outlive the command that started them, and only they are ever signalled.

A pid alone proves nothing, since the kernel hands pids out again. The pid file therefore also holds the process's
birth (its start time in the kernel's own clock), and every question and every signal compares both first.

Starting (``start_detached``), under the member's lock:
 1. look: a living member is returned as it is;
 2. spawn: a shell in a session of its own starts the program in the background and prints its pid;
 3. record: the pid file is written beside and renamed into place.
A crash after step 1 leaves nothing. After step 2 the program runs without a pid file: the next start finds its port
taken or its lock held and says so. After step 3 everything is in order.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from headwater.rules.errors import NotFound, Unavailable

GRACE_SECONDS = 15.0  # a broker flushes and leaves within 2 s, a consumer group's member drains within 10 s
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Running:
    """A process that we started and that is still the one we started."""

    name: str
    pid: int
    birth: str
    started_at: float
    argv: tuple[str, ...]


def log_path(name: str, home: Path) -> Path:
    return home / "logs" / f"{name}.log"


def pid_path(name: str, home: Path) -> Path:
    return home / "run" / f"{name}.json"


def names(home: Path) -> list[str]:
    """Every member that has a pid file below ``home``, alive or not."""
    return sorted(path.stem for path in (home / "run").glob("*.json"))


def alive(name: str, home: Path) -> Running | None:
    """The running member, or None when it never ran, ended, or its pid now belongs to somebody else."""
    try:
        recorded = json.loads(pid_path(name, home).read_text(encoding="utf-8"))
        running = Running(name=name, argv=tuple(recorded.pop("argv")), **recorded)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return running if birth(running.pid) == running.birth else None


def birth(pid: int) -> str | None:
    """What tells this process from a later one with the same pid; None when it has ended.

    On Linux the start time in ticks since boot with the boot's id, which no clock change can move; elsewhere the
    start time that the system reports.
    """
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, start_ticks = after_name[0], after_name[19]  # fields 3 and 22 of proc_pid_stat(5)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return None if state in "ZX" else f"{boot}:{start_ticks}"
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.NoSuchProcess:
        return None


def start_detached(
    name: str, argv: Sequence[str], env: Mapping[str, str], home: Path, *, user: int | None = None
) -> Running:
    """Starts ``argv`` as member ``name`` of ``home`` in a session of its own; a living member is left as it is.

    ``env`` is the whole environment. Output goes to ``logs/NAME.log``. ``user`` is the uid (and gid) to run as.

    Raises:
        NotFound: there is no such program.
        Unavailable: it ended as soon as it started.
    """
    with locked(name, home):
        running = alive(name, home)
        if running is not None:
            return running
        if shutil.which(argv[0]) is None:
            raise NotFound(f"{name} cannot start: there is no program {argv[0]}.")
        pid = _spawn(argv, env, home, log_path(name, home), user)
        return _record(name, pid, argv, home)


def _spawn(argv: Sequence[str], env: Mapping[str, str], home: Path, log: Path, user: int | None) -> int:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        # The shell ends at once, so the program belongs to init: no zombie waits for us, no terminal signal reaches it.
        shell = subprocess.run(
            ["/bin/sh", "-c", '"$@" </dev/null >&2 & echo $!', "sh", *argv],
            env=dict(env), cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output,
            start_new_session=True, user=user, group=user, extra_groups=None if user is None else [], check=False,
        )  # fmt: skip
    if shell.returncode != 0:
        raise Unavailable(f"{argv[0]} could not be started.", advice=f"See {log}.")
    return int(shell.stdout)


def _record(name: str, pid: int, argv: Sequence[str], home: Path) -> Running:
    born = birth(pid)
    if born is None:
        log = log_path(name, home)
        raise Unavailable(f"{name} ended as soon as it started: {last_line(log)}", advice=f"See {log}.")
    running = Running(name=name, pid=pid, birth=born, started_at=time.time(), argv=tuple(argv))
    fields = {key: value for key, value in asdict(running).items() if key != "name"}
    path = pid_path(name, home)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(fields), encoding="utf-8")
    draft.replace(path)
    return running


def stop(
    name: str, home: Path, *, polite: signal.Signals = signal.SIGTERM, grace_seconds: float = GRACE_SECONDS
) -> bool:
    """Asks the member to end, waits, and after the grace kills its process group. False if it was not running."""
    with locked(name, home):
        running = alive(name, home)
        if running is not None:
            with suppress(ProcessLookupError):
                os.kill(running.pid, polite)
            if not _ended(running, grace_seconds):
                with suppress(ProcessLookupError):
                    os.killpg(os.getpgid(running.pid), signal.SIGKILL)
                _ended(running, grace_seconds)
        pid_path(name, home).unlink(missing_ok=True)
        return running is not None


def _ended(running: Running, within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while birth(running.pid) == running.birth:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def last_line(log: Path) -> str:
    """The last line that a program wrote before it ended, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return "(it wrote nothing)"
    return next((line.strip() for line in reversed(lines) if line.strip()), "(it wrote nothing)")


@contextmanager
def locked(name: str, home: Path) -> Iterator[None]:
    """Held while ``name`` is started or stopped, so that two commands at once do it one after the other."""
    run = home / "run"
    run.mkdir(parents=True, exist_ok=True)
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
