"""What the scheduler of a pool says of it once a second, and what a job reads from that: its place, when it starts.

Nobody counts jobs: of each tenant the board has how many wait and a few of their sort keys, evenly over all of them,
and who asks for a place interpolates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.rules.jobs.fair_queue import TenantQueue
from headwater.rules.jobs.waiting import sort_key

KEYS = 33
"""Of a tenant's sort keys: a place is right within a 32nd of what the tenant has waiting."""
SAMPLE = 256
"""So many keys are looked at for these."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """The waiting jobs of one tenant and priority, and how many of them were granted in the last minute."""

    priority: int
    queued: int
    granted_per_minute: int = 0


@dataclass(frozen=True, slots=True)
class TenantBoard:
    """``cost_seconds`` is the mean of a waiting job; ``keys`` are quantiles from the least to the greatest."""

    weight: float
    max_running: int | None
    running: int
    cost_seconds: float
    keys: tuple[int, ...]
    classes: tuple[JobClass, ...]

    @property
    def queued(self) -> int:
        return sum(one.queued for one in self.classes)

    def before(self, key: int) -> float:
        """How many of its jobs go before one with this key."""
        at = bisect_left(self.keys, key)
        if at == 0:
            return 0.0
        if at == len(self.keys):
            return float(self.queued)
        low, high = self.keys[at - 1], self.keys[at]
        return (self.queued - 1) * (at - 1 + (key - low) / (high - low)) / (len(self.keys) - 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """``position`` counts from 1. When it starts, and when it is done, is unknown (None) where no worker is."""

    position: int
    starts_in_seconds: float | None
    ends_in_seconds: float | None


@dataclass(frozen=True, slots=True)
class Board:
    """``slots`` of all workers, ``free`` ones of them; ``pace``: GPU seconds that jobs were expected to need, for each
    second that they had a slot. ``running`` jobs have one."""

    at_us: int
    slots: int
    free: int
    pace: float
    tenants: Mapping[str, TenantBoard] = field(default_factory=dict)

    @property
    def queued(self) -> int:
        return sum(tenant.queued for tenant in self.tenants.values())

    def standing(
        self, tenant: str, priority: int, queued_us: int, cost_seconds: float, weight: float = 1.0
    ) -> Standing:
        """Of a job that waits here, or would. ``weight`` counts for a tenant that has nothing here yet.

        Before it go those of its own tenant that stand before it, and of each other tenant as much as its weight lets
        it have meanwhile.
        """
        mine = self.tenants.get(tenant) or TenantBoard(weight, None, 0, cost_seconds, (), ())
        before = mine.before(sort_key(queued_us, priority))
        share = before * mine.cost_seconds / mine.weight
        jobs, seconds = before, before * mine.cost_seconds
        for name, other in self.tenants.items():
            if name != tenant and other.cost_seconds > 0:
                theirs = min(float(other.queued), share * other.weight / other.cost_seconds)
                jobs, seconds = jobs + theirs, seconds + theirs * other.cost_seconds
        starts = self._starts_in(seconds + cost_seconds, jobs)
        if starts is not None and mine.max_running is not None:
            starts = max(starts, self._held_back(mine, before))
        return Standing(round(jobs) + 1, starts, None if starts is None else starts + cost_seconds / self.pace)

    def _starts_in(self, seconds: float, jobs: float) -> float | None:
        """``seconds``: the cost of all before it, and its own: slots come free one by one, as such jobs end."""
        if self.slots == 0:
            return None
        return 0.0 if jobs < self.free else seconds / (self.slots * self.pace)

    def _held_back(self, mine: TenantBoard, before: float) -> float:
        """By the number of jobs that its tenant may have running."""
        assert mine.max_running is not None
        if before + mine.running < mine.max_running:
            return 0.0
        return (before + 1) * mine.cost_seconds / (max(1, mine.max_running) * self.pace)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Board:
        tenants = {
            name: TenantBoard(**{
                **tenant,
                "keys": tuple(tenant["keys"]),
                "classes": tuple(JobClass(**one) for one in tenant["classes"]),
            })
            for name, tenant in value["tenants"].items()
        }  # fmt: skip
        return cls(**{**value, "tenants": tenants})


def tenant_boards(queues: Iterable[TenantQueue], granted: Mapping[tuple[str, int], int]) -> dict[str, TenantBoard]:
    """``granted``: how many of each tenant and priority in the last minute."""
    boards = {}
    for queue in queues:
        queued = sum(queue.queued.values())
        classes = tuple(
            JobClass(priority, count, granted.get((queue.tenant, priority), 0))
            for priority, count in sorted(queue.queued.items(), reverse=True)
        )
        limits = queue.limits
        boards[queue.tenant] = TenantBoard(
            limits.weight,
            limits.max_running,
            queue.running,
            queue.cost_seconds / queued,
            quantiles(queue.keys),
            classes,
        )
    return boards


def quantiles(keys: Iterable[int]) -> tuple[int, ...]:
    """At most KEYS of them, evenly, with the least and the greatest."""
    ordered = sorted(keys)
    if len(ordered) <= KEYS:
        return tuple(ordered)
    return tuple(ordered[at * (len(ordered) - 1) // (KEYS - 1)] for at in range(KEYS))
