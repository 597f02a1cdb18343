"""A job that waits for a worker: what the order in which jobs are granted depends on."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rules.jobs.capabilities import length_class

LOWEST, HIGHEST = -10, 10
"""Priorities that a job may have; 0 is usual. They order the jobs of one tenant, and weigh nothing between tenants."""
AGEING_US = 120_000_000
"""What one step of priority is worth: two minutes of waiting, about as long as a job takes."""

_LEAST_COST_SECONDS = 0.01
"""No job is free: a tenant whose jobs cost nothing would never have had its share."""

Shape = tuple[str, str, int]
"""Model, size and length class: jobs of one shape can be generated in one batch."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """``epoch`` is that of its last grant, 0 before the first; ``seconds`` is the video's length. Times are
    microseconds since 1970: ``not_before_us`` is when a failure's backoff ends, ``deadline_us`` when its result must
    be there."""

    job: str
    version: int
    epoch: int
    tenant: str
    model: str
    size: str
    seconds: int
    priority: int
    cost_seconds: float
    queued_us: int
    deadline_us: int | None = None
    not_before_us: int | None = None

    @property
    def key(self) -> int:
        return sort_key(self.queued_us, self.priority)

    @property
    def shape(self) -> Shape:
        return self.model, self.size, length_class(self.seconds)

    @property
    def charge(self) -> float:
        """GPU seconds that its tenant is charged in the order."""
        return max(self.cost_seconds, _LEAST_COST_SECONDS)


def whole_seconds(text: str) -> int:
    """A video's length as its owner wrote it; 1 for what is no number, since it only decides who may share a batch."""
    return int(text) if text.isdecimal() else 1


def sort_key(queued_us: int, priority: int) -> int:
    """Where a job stands among its tenant's: the lowest goes first.

    It never changes, so nothing is ever sorted anew, and nothing starves: a job of priority p is overtaken only by
    what its tenant sends within (HIGHEST - p) * AGEING_US after it, 40 minutes for the lowest.
    """
    return queued_us - priority * AGEING_US
