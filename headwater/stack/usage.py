"""What a process of ours takes from the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from headwater.stack.processes import Running


@dataclass(frozen=True, slots=True)
class Usage:
    """``memory_bytes`` counts the process and its children, pages that they share once where the system can tell."""

    pid: int
    uptime_seconds: float
    memory_bytes: int


def usage(running: Running) -> Usage:
    return Usage(running.pid, max(0.0, time.time() - running.started_at), memory_bytes(running.pid))


def memory_bytes(pid: int) -> int:
    """Proportional set size of the process and its children (on Linux), else resident size; 0 once it has ended."""
    try:
        leader = psutil.Process(pid)
        family = [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_memory_bytes(process) for process in family)


def _memory_bytes(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss))
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
