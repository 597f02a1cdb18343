"""What a scheduler knows of its pool, and whom it would give what. No I/O: facts in, wishes out.

The catalog's word, once a second, replaces what is known of workers and leases; the log's words between, which come
within milliseconds, only say earlier what it will say. Hence none of them can do harm by being lost, late or repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from headwater.connectors.jobs.grants import ActiveWorker, Grants, Lease, Wish
from headwater.rules.jobs.fair_queue import FairQueue
from headwater.rules.jobs.pace import Pace
from headwater.rules.jobs.waiting import WaitingJob
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind

FINISHING = "finishing"
"""Of a lease, and the reason of the event that says it: the model is done, the slot is free."""

_ENDS = {EventState.completed, EventState.failed, EventState.cancelled, EventState.expired, EventState.queued}
_MINUTE_US = 60_000_000


class Pool:
    """Used from one thread. ``epoch`` is the ownership that every write to the catalog must carry."""

    def __init__(self, name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.queue = FairQueue()
        self.leases: dict[str, Lease] = {}
        self.workers: dict[str, ActiveWorker] = {}
        self.pace = Pace()
        self._batches: Mapping[str, int] = {}
        self._taken: dict[str, WaitingJob] = {}
        self._free: dict[str, int] = {}
        self._granted_us: dict[tuple[str, int], int] = {}
        self._minute: list[tuple[int, tuple[str, int]]] = []

    # What the catalog says

    def set_workers(self, workers: Iterable[ActiveWorker], batches: Mapping[str, int]) -> None:
        """``batches``: by model, how many jobs it does at once."""
        self.workers = {worker.worker: worker for worker in workers}
        self._batches = batches
        self._count_free()

    def set_leases(self, leases: Iterable[Lease]) -> None:
        self.leases = {lease.job: lease for lease in leases}
        for job in self.leases:
            self.queue.discard(job)
        self._granted_us = {
            key: at for key, at in self._granted_us.items() if (one := self.leases.get(key[0])) and one.epoch == key[1]
        }
        self.queue.set_running(Counter(lease.tenant for lease in self.leases.values()))
        self._count_free()

    @property
    def slots(self) -> int:
        return sum(worker.slots for worker in self.workers.values())

    @property
    def free(self) -> int:
        return sum(self._free.values())

    # What the log says

    def requested(self, job: WaitingJob, now_us: int) -> None:
        """It waits, unless it has been granted since."""
        lease = self.leases.get(job.job)
        if lease is not None and lease.epoch > job.epoch:
            return
        if lease is not None:
            self._end(lease, now_us, EventState.queued)
        self.queue.put(job, now_us)

    def heard(self, event: JobEvent, now_us: int) -> Lease | None:
        """Returns the lease whose worker must be told to stop, if it is that."""
        lease = self.leases.get(event.job)
        if lease is not None and lease.epoch > event.epoch:
            return None
        if event.kind is JobEventKind.progress:
            if lease is not None and event.reason == FINISHING and lease.stage != FINISHING:
                self._free_slot(lease, now_us, done=True)
                self.leases[event.job] = lease._replace(stage=FINISHING)
            return None
        if event.state is not EventState.queued:
            waiting = self.queue.get(event.job)
            if waiting is not None and waiting.version < event.version:
                self.queue.discard(event.job)
        if lease is None:
            return None
        if event.state is EventState.cancelling:
            return lease
        if event.state in _ENDS:
            self._end(lease, now_us, event.state)
        return None

    # What follows

    def wishes(self, now_us: int, most: int) -> list[Wish]:
        """Whom to give what: one job after the other by the order of the queue, each to the worker with most of its
        slots free that has the model; where the model does several at once, further jobs like it go along."""
        self.queue.wake(now_us)
        wishes: list[Wish] = []
        if not self._free or not len(self.queue):
            return wishes
        by_room = [(-free / self.workers[name].slots, name) for name, free in self._free.items()]
        heapify(by_room)
        while by_room and len(wishes) < most:
            worker = self.workers[heappop(by_room)[1]]
            jobs = self._for_worker(worker, now_us)
            wishes.extend(Wish(job.job, worker.worker, worker.incarnation) for job in jobs)
            left = self._free.get(worker.worker, 0)
            if jobs and left:
                heappush(by_room, (-left / worker.slots, worker.worker))
        return wishes

    def granted(self, grants: Grants, wishes: Collection[Wish], now_us: int) -> list[Lease]:
        """What became of them: the leases that there are now. The others wait again, or are gone."""
        wished = {wish.job: wish for wish in wishes}
        leases = []
        for job, epoch in grants.granted:
            waiting, wish = self._taken.pop(job), wished[job]
            lease = Lease(job, epoch, waiting.tenant, wish.worker, wish.incarnation, "granted", waiting.cost_seconds)
            self.leases[job] = lease
            self._granted_us[job, epoch] = now_us
            self._minute.append((now_us, (waiting.tenant, waiting.priority)))
            leases.append(lease)
        for job, reason in grants.refused:
            waiting, wish = self._taken.pop(job), wished[job]
            self._give_slot_back(wish.worker)
            self.queue.give_back(waiting, now_us)
            if reason == "tenant":
                self.queue.hold(waiting.tenant)
            elif reason == "worker":
                self._free.pop(wish.worker, None)
            else:
                self.queue.discard(job)
        return leases

    def granted_in_the_last_minute(self, now_us: int) -> Counter[tuple[str, int]]:
        """By tenant and priority."""
        self._minute = [one for one in self._minute if one[0] > now_us - _MINUTE_US]
        return Counter(of for _, of in self._minute)

    def _for_worker(self, worker: ActiveWorker, now_us: int) -> list[WaitingJob]:
        first = self.queue.take(worker.models, now_us)
        jobs = [first] if first is not None else []
        if first is not None:
            most = min(self._free[worker.worker], self._batches.get(first.model, 1))
            while len(jobs) < most and (job := self.queue.take(worker.models, now_us, first.shape)) is not None:
                jobs.append(job)
        for job in jobs:
            self._taken[job.job] = job
        self._take_slots(worker.worker, len(jobs))
        return jobs

    def _end(self, lease: Lease, now_us: int, state: EventState) -> None:
        """A worker whose job waits again may be dead: it gets nothing until the catalog says that it is there."""
        if lease.stage != FINISHING:
            self._free_slot(lease, now_us, done=state is EventState.completed)
        if state is EventState.queued and self._is_alive(lease):
            self._free.pop(lease.worker, None)
        del self.leases[lease.job]
        self.queue.ended(lease.tenant)

    def _free_slot(self, lease: Lease, now_us: int, *, done: bool) -> None:
        granted_us = self._granted_us.pop((lease.job, lease.epoch), None)
        if done and granted_us is not None:
            self.pace.saw(lease.cost_seconds, (now_us - granted_us) / 1_000_000)
        if self._is_alive(lease):
            self._give_slot_back(lease.worker)

    def _is_alive(self, lease: Lease) -> bool:
        """Its worker is there, and was not started anew."""
        worker = self.workers.get(lease.worker)
        return worker is not None and worker.incarnation == lease.incarnation

    def _give_slot_back(self, worker: str) -> None:
        if worker in self.workers:
            self._free[worker] = self._free.get(worker, 0) + 1

    def _take_slots(self, worker: str, count: int) -> None:
        self._free[worker] -= count
        if self._free[worker] == 0:
            del self._free[worker]

    def _count_free(self) -> None:
        busy = Counter(lease.worker for lease in self.leases.values() if lease.stage != FINISHING)
        rooms = {name: worker.slots - busy[name] for name, worker in self.workers.items()}
        self._free = {name: room for name, room in rooms.items() if room > 0}
