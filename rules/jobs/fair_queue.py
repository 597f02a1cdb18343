"""Who is next: weighted fair queueing between tenants, and inside a tenant the order of ``sort_key``.

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): each tenant has a start tag, which a grant moves on by the
job's cost over the tenant's weight; the least tag is served. Hence, for two tenants that both wait all along,

    | served_a / weight_a - served_b / weight_b |  <=  cost_a / weight_a + cost_b / weight_b

in GPU seconds, cost being the largest single job of each, whatever else the pool does. A batch (``shape``) may take a
job out of this order: it is charged like any other, and the batch's first job never is out of it, which adds at most
one batch to the bound.

Who comes, or comes back, starts at the oldest tag of the jobs that run: it goes before those who hold the slots until
it holds its share of them, and silence saves up no more than that (decisions/290).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

from headwater.rules.jobs.deadlines import latest_start_us
from headwater.rules.jobs.lanes import Lanes, LazyHeap, Next
from headwater.rules.jobs.waiting import Shape, WaitingJob

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """``weight`` is of its share, ``max_running`` how many of its jobs may have a worker at once."""

    weight: float = 1.0
    max_running: int | None = None


_USUAL = Limits()


class _Tenant:
    __slots__ = ("cost", "held", "lanes", "limits", "place", "queued", "running", "start")

    def __init__(self, lanes: Lanes, limits: Limits, start: float) -> None:
        self.lanes = lanes
        self.limits = limits
        self.start = start
        self.place: tuple[float, str] | None = None
        """Its entry in the order, the only one that counts."""
        self.queued: Counter[int] = Counter()
        self.cost = 0.0
        self.running = 0
        self.held = False

    @property
    def may_be_served(self) -> bool:
        most = self.limits.max_running
        return bool(self.queued) and not self.held and (most is None or self.running < most)


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """What waits of one tenant: jobs by priority, their cost together, and about as many of their keys as asked for."""

    tenant: str
    limits: Limits
    running: int
    queued: Mapping[int, int]
    cost_seconds: float
    keys: tuple[int, ...]


class FairQueue:
    """The waiting jobs of a pool. No I/O, no clock; used from one thread. A job is in it once, in its newest version.

    ``take`` counts the job as running for its tenant, until ``give_back``, ``ended`` or ``set_running``.
    """

    def __init__(self) -> None:
        self._live: dict[str, WaitingJob] = {}
        self._later: dict[str, WaitingJob] = {}
        self._tenants: dict[str, _Tenant] = {}
        self._limits: Mapping[str, Limits] = {}
        self._order: list[tuple[float, str]] = []
        self._served: deque[float] = deque([0.0])
        """The tags served last, as many as jobs run."""
        self._running = 0
        self._models: Counter[str] = Counter()
        self._shapes: Counter[Shape] = Counter()
        self._by_latest_start = LazyHeap(self._live)
        self._by_age = LazyHeap(self._live)
        self._by_not_before = LazyHeap(self._later)

    def __len__(self) -> int:
        """With those that may not be granted yet."""
        return len(self._live) + len(self._later)

    def get(self, job: str) -> WaitingJob | None:
        return self._live.get(job) or self._later.get(job)

    def oldest_us(self) -> int | None:
        """Since when the one waits that waits longest."""
        head = self._by_age.head()
        return head[0] if head is not None else None

    def put(self, job: WaitingJob, now_us: int) -> None:
        """It waits from now on, or from its ``not_before_us``. An older version of it goes; a newer one stays."""
        known = self.get(job.job)
        if known is not None and known.version >= job.version:
            return
        self.discard(job.job)
        if job.not_before_us is not None and job.not_before_us > now_us:
            self._later[job.job] = job
            self._by_not_before.push(job.not_before_us, job)
        else:
            self._add(job)

    def discard(self, job: str) -> None:
        """It waits no more, if it did."""
        if self._later.pop(job, None) is None and job in self._live:
            self._remove(self._live[job])

    def wake(self, now_us: int) -> None:
        """Let those wait whose backoff is over."""
        while (head := self._by_not_before.head()) is not None and head[0] <= now_us:
            del self._later[head[1]]
            self._add(head[3])

    def infeasible(self, now_us: int) -> list[WaitingJob]:
        """Take out those that cannot keep their deadlines any more."""
        found = []
        while (head := self._by_latest_start.head()) is not None and head[0] < now_us:
            self._remove(head[3])
            found.append(head[3])
        return found

    def take(self, models: Collection[str], now_us: int, shape: Shape | None = None) -> WaitingJob | None:
        """The next job for a worker with these models; with ``shape``, the next that can join a batch of it."""
        if not (self._shapes[shape] if shape is not None else any(self._models[model] for model in models)):
            return None
        passed: list[str] = []
        found: Next | None = None
        while self._order and found is None:
            entry = heappop(self._order)
            tenant = self._tenants.get(entry[1])
            if tenant is None or tenant.place is not entry:
                continue
            tenant.place = None
            if tenant.may_be_served:
                found = tenant.lanes.next(models, now_us) if shape is None else tenant.lanes.of_shape(shape)
                passed.append(entry[1])
        if found is not None:
            self._serve(found, passed, in_order=shape is None)
        for name in passed:
            self._place(name, self._tenants[name])
        return found.job if found is not None else None

    def give_back(self, job: WaitingJob, now_us: int) -> None:
        """What was taken was not granted: it waits again, and its tenant is not charged for it."""
        self.ended(job.tenant)
        if (tenant := self._tenants.get(job.tenant)) is not None:
            tenant.start -= job.charge / tenant.limits.weight
            tenant.place = None
        self.put(job, now_us)
        self._unblock(job.tenant)

    def hold(self, tenant: str) -> None:
        """Give it nothing until limits are set anew: it has all that it may have, here and elsewhere."""
        known = self._tenant(tenant)
        known.held, known.place = True, None

    def ended(self, tenant: str) -> None:
        """One of its jobs does not run any more."""
        known = self._tenants.get(tenant)
        if known is not None and known.running > 0:
            known.running -= 1
            self._running -= 1
            self._forget_served()
            self._unblock(tenant)

    def set_running(self, running: Mapping[str, int]) -> None:
        """How many run of each tenant; of others none."""
        for name in running:
            self._tenant(name)
        self._running = sum(running.values())
        self._forget_served()
        for name, tenant in self._tenants.items():
            tenant.running = running.get(name, 0)
            self._unblock(name)

    def set_limits(self, limits: Mapping[str, Limits]) -> None:
        """Of tenants that are not in it, the usual ones. Ends all holds, and forgets tenants that have nothing here."""
        self._limits = limits
        for name, tenant in list(self._tenants.items()):
            tenant.limits = limits.get(name, _USUAL)
            tenant.held = False
            if not tenant.queued and not tenant.running and tenant.start <= self._served[0]:
                del self._tenants[name]
            else:
                self._unblock(name)

    def charge(self, tenant: str, cost_seconds: float) -> None:
        """It has had this before: what runs when a pool is taken over."""
        known = self._tenant(tenant)
        known.start += cost_seconds / known.limits.weight
        known.place = None
        self._place(tenant, known)

    def tenants(self, keys: int) -> Iterator[TenantQueue]:
        """Those of whom something waits, with about so many keys of each."""
        for name, tenant in self._tenants.items():
            if tenant.queued:
                sample = tuple(tenant.lanes.sample(keys))
                yield TenantQueue(name, tenant.limits, tenant.running, dict(tenant.queued), tenant.cost, sample)

    def _serve(self, found: Next, passed: list[str], *, in_order: bool) -> None:
        """The last of ``passed`` is served; the others had nothing for this worker, and save up nothing by that."""
        name, job = passed[-1], found.job
        tenant = self._tenants[name]
        if in_order:
            for other in passed:
                self._tenants[other].start = max(self._tenants[other].start, tenant.start)
            self._served.append(max(tenant.start, self._served[-1]))
        tenant.start += job.charge / tenant.limits.weight
        tenant.running += 1
        self._running += 1
        self._forget_served()
        tenant.lanes.took(found)
        self._remove(job)

    def _add(self, job: WaitingJob) -> None:
        tenant = self._tenant(job.tenant)
        self._live[job.job] = job
        tenant.lanes.push(job)
        tenant.queued[job.priority] += 1
        tenant.cost += job.charge
        self._models[job.model] += 1
        self._shapes[job.shape] += 1
        self._by_age.push(job.queued_us, job)
        if job.deadline_us is not None:
            self._by_latest_start.push(latest_start_us(job.deadline_us, job.cost_seconds), job)
        self._unblock(job.tenant)

    def _remove(self, job: WaitingJob) -> None:
        del self._live[job.job]
        tenant = self._tenants[job.tenant]
        _count_down(tenant.queued, job.priority)
        _count_down(self._models, job.model)
        _count_down(self._shapes, job.shape)
        tenant.cost -= job.charge
        if not tenant.queued:
            tenant.cost, tenant.place = 0.0, None

    def _tenant(self, name: str) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            lanes, limits = Lanes(self._live), self._limits.get(name, _USUAL)
            tenant = self._tenants[name] = _Tenant(lanes, limits, self._served[0])
        return tenant

    def _unblock(self, name: str) -> None:
        """Give it a place in the order if it has none and should."""
        tenant = self._tenants[name]
        if tenant.place is None and tenant.may_be_served:
            tenant.start = max(tenant.start, self._served[0])
            self._place(name, tenant)

    def _forget_served(self) -> None:
        while len(self._served) > max(1, self._running):
            self._served.popleft()

    def _place(self, name: str, tenant: _Tenant) -> None:
        if tenant.may_be_served:
            tenant.place = (tenant.start, name)
            heappush(self._order, tenant.place)


def _count_down(counter: Counter[T], what: T) -> None:
    counter[what] -= 1
    if not counter[what]:
        del counter[what]
