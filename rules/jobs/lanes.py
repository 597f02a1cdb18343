"""The waiting jobs of one tenant, in their order. It is static: see ``sort_key``.

A job leaves by being no longer in ``live``; the heaps forget it when it comes to their head, or when so many such
entries gathered that they are built anew. So cancelling one of 100,000 costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from headwater.rules.jobs.deadlines import at_risk_us
from headwater.rules.jobs.waiting import Shape, WaitingJob

_Entry = tuple[int, str, int, WaitingJob]
"""What orders it, then its name and version, so that two jobs are never compared themselves."""

_SLACK = 64


class LazyHeap:
    """The jobs of ``live`` that were pushed, the lowest key first."""

    __slots__ = ("_entries", "_live", "_most")

    def __init__(self, live: Mapping[str, WaitingJob]) -> None:
        self._live = live
        self._entries: list[_Entry] = []
        self._most = _SLACK

    def push(self, key: int, job: WaitingJob) -> None:
        if len(self._entries) >= self._most:
            self._entries = [entry for entry in self._entries if self._lives(entry)]
            heapify(self._entries)
            self._most = 2 * len(self._entries) + _SLACK
        heappush(self._entries, (key, job.job, job.version, job))

    def head(self) -> _Entry | None:
        while self._entries and not self._lives(self._entries[0]):
            heappop(self._entries)
        return self._entries[0] if self._entries else None

    def jobs(self) -> list[WaitingJob]:
        return [entry[3] for entry in self._entries if self._lives(entry)]

    def sample(self, most: int) -> list[int]:
        """About so many keys of those here, evenly from anywhere in the heap."""
        step = max(1, len(self._entries) // max(1, most))
        return [entry[0] for entry in self._entries[::step] if self._lives(entry)]

    def _lives(self, entry: _Entry) -> bool:
        return self._live.get(entry[1]) is entry[3]


class _Lane:
    """The tenant's jobs for one model."""

    __slots__ = ("by_key", "by_risk", "by_shape", "live")

    def __init__(self, live: Mapping[str, WaitingJob]) -> None:
        self.live = live
        self.by_key = LazyHeap(live)
        self.by_risk = LazyHeap(live)
        self.by_shape: dict[Shape, LazyHeap] | None = None

    def push(self, job: WaitingJob) -> None:
        self.by_key.push(job.key, job)
        if job.deadline_us is not None:
            self.by_risk.push(at_risk_us(job.deadline_us, job.cost_seconds), job)
        if self.by_shape is not None:
            self._index(job, self.by_shape)

    def of_shape(self, shape: Shape) -> WaitingJob | None:
        """Shapes are indexed from the first time that a batch asks for one."""
        if self.by_shape is None:
            self.by_shape = {}
            for job in self.by_key.jobs():
                self._index(job, self.by_shape)
        heap = self.by_shape.get(shape)
        head = heap.head() if heap is not None else None
        if heap is not None and head is None:
            del self.by_shape[shape]
        return head[3] if head is not None else None

    def _index(self, job: WaitingJob, heaps: dict[Shape, LazyHeap]) -> None:
        heap = heaps.get(job.shape)
        if heap is None:
            heap = heaps[job.shape] = LazyHeap(self.live)
        heap.push(job.key, job)


@dataclass(frozen=True, slots=True)
class Next:
    """``overtakes``: it goes before the tenant's first in order, because its deadline is at risk."""

    job: WaitingJob
    overtakes: bool


class Lanes:
    """One tenant's jobs. Of two that it is given one after the other at most one overtook: so deadlines, however many,
    make no other job wait for more than twice as many of its tenant's as its place in the order says."""

    __slots__ = ("_lanes", "_live", "_overtook")

    def __init__(self, live: Mapping[str, WaitingJob]) -> None:
        self._live = live
        self._lanes: dict[str, _Lane] = {}
        self._overtook = False

    def push(self, job: WaitingJob) -> None:
        lane = self._lanes.get(job.model)
        if lane is None:
            lane = self._lanes[job.model] = _Lane(self._live)
        lane.push(job)

    def next(self, models: Collection[str], now_us: int) -> Next | None:
        """Who is next for a worker that has these models."""
        lanes = [lane for model, lane in self._lanes.items() if model in models]
        firsts = [head for lane in lanes if (head := lane.by_key.head()) is not None]
        if not firsts:
            return None
        first = min(firsts)[3]
        if not self._overtook:
            urgent = [head for lane in lanes if (head := lane.by_risk.head()) is not None and head[0] <= now_us]
            if urgent and (most := min(urgent)[3]) is not first:
                return Next(most, overtakes=True)
        return Next(first, overtakes=False)

    def of_shape(self, shape: Shape) -> Next | None:
        """Who is next of those that can join a batch."""
        lane = self._lanes.get(shape[0])
        job = lane.of_shape(shape) if lane is not None else None
        return Next(job, overtakes=False) if job is not None else None

    def took(self, taken: Next) -> None:
        self._overtook = taken.overtakes

    def sample(self, most: int) -> list[int]:
        """About so many of its jobs' keys."""
        return [key for lane in self._lanes.values() for key in lane.by_key.sample(most)]
