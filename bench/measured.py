"""What programs use: one run of a program to its end, and the CPU seconds of each program while something happens."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from headwater.rules.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Measured:
    """``rss_mib``: the most memory that the process had resident at a time. ``cpu_seconds``: of all its threads."""

    seconds: float
    rss_mib: float
    cpu_seconds: float
    output: str
    errors: str


def measured(argv: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Run it to its end. Raises Unavailable where it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(argv, env=dict(environment), stdout=output, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said, complaint = _text(output), _text(errors)
    if process.returncode != 0:
        raise Unavailable(f"{Path(argv[0]).name} {argv[1]} ended with {process.returncode}: {complaint.strip()[-500:]}")
    return Measured(seconds, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, said, complaint)


@contextmanager
def cpu_seconds() -> Iterator[dict[str, float]]:
    """CPU seconds of each program while the block ran, filled in where it ends; ``peer``: of children that ended."""
    used: dict[str, float] = {}
    before, children = _cpu_by_process(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield used
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    for process, seconds in _cpu_by_process().items():
        used[process[1]] = round(used.get(process[1], 0.0) + seconds - before.get(process, 0.0), 1)
    used["peer"] = round(ended, 1)


def _cpu_by_process() -> dict[tuple[int, str], float]:
    """By pid and name. Our own processes are children of this one; the servers are found by their names, whosever."""
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    seconds: dict[tuple[int, str], float] = {}
    for process in psutil.process_iter(["pid", "cmdline", "cpu_times"]):
        pid, command, times = (process.info[name] for name in ("pid", "cmdline", "cpu_times"))
        if command and times and (name := _ours(command) if pid in ours else _server(command)):
            seconds[pid, name] = times.user + times.system
    return seconds


def _ours(command: list[str]) -> str | None:
    return next((name for start, name in _OURS.items() for word in command if word.startswith(start)), None)


_OURS = {"sync": "agent", "upload-": "upload", "verify-": "verify", "headwater.consumers.worker.host": "model"} | {
    name: name for name in ("api", "outbox", "dispatch", "sweep", "webhooks", "worker")
}
"""The name of a process of ours by how a word of its command line begins."""


def _server(command: list[str]) -> str | None:
    if "kafka.Kafka" in command:
        return "Kafka"
    first = Path(command[0]).name
    return {"versitygw": "S3 server"}.get(first) or ("PostgreSQL" if first.startswith("postgres") else None)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
