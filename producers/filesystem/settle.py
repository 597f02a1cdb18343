"""When a file may be read: nothing about it moved for a while, and nobody has it open for writing.

Facts that the rules rest on (measured, notes/sync.md): comparing stats before and after a read lets through mixes of
states where a file is mapped writable, because the kernel updates mtime late. A read lease is refused exactly while
somebody holds the file open for writing or mapped so; it is asked for and given back at once, because a lease that is
held makes the next writer wait.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import signal
from dataclasses import dataclass, replace
from enum import StrEnum

from headwater.producers.filesystem.mounts import is_local
from headwater.producers.filesystem.tree import Signature

TICK_SECONDS = 0.01
"""Kernels stamp files with a clock that ticks every 1 to 10 ms: two writes within one tick have one ctime."""


class Writers(StrEnum):
    """What the read lease told."""

    none = "none"
    some = "some"
    unknown = "unknown"
    """No lease to be had (a file of another owner without CAP_LEASE, a filesystem without leases), or one that proves
    nothing, because others write there unseen."""


def probe_writers(descriptor: int) -> Writers:
    """Ask for a read lease on an open file and give it back at once. A refusal counts on every filesystem."""
    # A writer that comes in this instant would end us by SIGIO; SIGURG is ignored by default.
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return Writers.some if error.errno == errno.EAGAIN else Writers.unknown
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return Writers.none if is_local(descriptor) else Writers.unknown


@dataclass(frozen=True, slots=True)
class Observation:
    """A signature and since when (seconds, wall clock) it stands. ``size_since``: since when the size does."""

    signature: Signature
    quiet_since: float
    size_since: float


def observe(before: Observation | None, signature: Signature, now: float) -> Observation:
    """What is known after one more stat.

    A ctime in the past says since when the file is quiet, so an old file needs no wait. A ctime in the future (the
    clock was set back) says nothing: then it is quiet since it was first seen so.
    """
    if before and before.signature == signature:
        return before
    ctime = signature.ctime_ns / 1e9
    quiet_since = ctime if ctime <= now else now
    same_size = before is not None and before.signature.size == signature.size
    size_since = before.size_since if before and same_size else quiet_since
    return Observation(signature, quiet_since, size_since)


def readable_at(observation: Observation, settle_seconds: float) -> float:
    """The moment from which the file counts as settled, if nothing moves until then.

    A file that is touched again and again while its size stands still is not starved: after ten settle times it is
    read as well, and the checks around the read decide whether what was read is one state.
    """
    wait = max(settle_seconds, TICK_SECONDS)
    untouched = observation.quiet_since + wait
    same_size = max(observation.size_since + 10 * wait, observation.quiet_since + TICK_SECONDS)
    return min(untouched, same_size)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path that may have changed. ``forced``: it is to be sent even if it did not; ``named``: versions made
    meanwhile name it as an exception, so nobody waits for it."""

    path: bytes
    since: float
    observation: Observation | None = None
    forced: bool = False
    named: bool = False


class Settling:
    """The paths that wait to be read, by the moment they may be; each at most once. The caller bounds their number.

    A path that is being read stays in it: what happens to it meanwhile makes it due once more.
    """

    def __init__(self) -> None:
        self._waiting: dict[bytes, tuple[float, Candidate]] = {}
        self._by_time: list[tuple[float, bytes]] = []
        self._reading: set[bytes] = set()
        self._again: dict[bytes, Candidate] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reading)

    def __contains__(self, path: bytes) -> bool:
        return path in self._waiting or path in self._reading

    @property
    def reading(self) -> int:
        return len(self._reading)

    @property
    def unnamed(self) -> int:
        """Those that somebody may wait for."""
        return len(self._reading) + sum(not candidate.named for _, candidate in self._waiting.values())

    def add(self, candidate: Candidate, due_at: float) -> None:
        """Wait until ``due_at``. One that waits already keeps its time, one that is being read gets another turn."""
        path = candidate.path
        if path in self._reading:
            forced = candidate.forced or (path in self._again and self._again[path].forced)
            self._again[path] = replace(candidate, forced=forced)
        elif path in self._waiting:
            if candidate.forced:
                before, waiting = self._waiting[path]
                self._waiting[path] = (before, replace(waiting, forced=True))
        else:
            self._waiting[path] = (due_at, candidate)
            heapq.heappush(self._by_time, (due_at, path))

    def take(self, now: float, limit: int) -> list[Candidate]:
        """Those that are due, to be read now; each must come back by ``postpone`` or ``done``."""
        taken: list[Candidate] = []
        while self._by_time and self._by_time[0][0] <= now and len(taken) < limit:
            _, path = heapq.heappop(self._by_time)
            _, candidate = self._waiting.pop(path)
            self._reading.add(path)
            taken.append(candidate)
        return taken

    def begin_anew(self, now: float) -> None:
        """The clock was set back to ``now``: whoever waits is looked at now, as if for the first time."""
        waiting = [replace(candidate, since=now, observation=None) for _, candidate in self._waiting.values()]
        self._waiting = {candidate.path: (now, candidate) for candidate in waiting}
        self._by_time = [(now, path) for path in self._waiting]

    def next_due_at(self) -> float | None:
        return self._by_time[0][0] if self._by_time else None

    def postpone(self, candidate: Candidate, due_at: float) -> None:
        """It was not settled: wait again. What happened meanwhile is part of the next look."""
        again = self._again.pop(candidate.path, None)
        self._reading.discard(candidate.path)
        self.add(replace(candidate, forced=candidate.forced or (again is not None and again.forced)), due_at)

    def done(self, path: bytes, now: float) -> None:
        """It was read, or is no longer to be read; if something happened meanwhile, it is due at once."""
        self._reading.discard(path)
        again = self._again.pop(path, None)
        if again is not None:
            self.add(again, now)
