"""The states of a job, and the one table of what may follow what. The database enforces the same table.

    queued ─► granted ─► running ─► completed | failed
      ▲          │          │
      └──────────┴──────────┘  the lease ended, the worker drained, or the failure was transient
    queued | granted | running ─► cancelling ─► cancelled
    queued ─► cancelled | failed         nobody has it: nothing need be stopped
    queued | granted ─► expired          its deadline passed before a worker claimed it

A final state stays: a redrive makes a new job.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    queued = "queued"
    granted = "granted"
    running = "running"
    completed = "completed"
    failed = "failed"
    cancelling = "cancelling"
    cancelled = "cancelled"
    expired = "expired"

    @property
    def final(self) -> bool:
        return self not in TRANSITIONS

    @property
    def public(self) -> str:
        """What the API calls it: whether it waits, or a worker has been told of it, is one thing to its owner."""
        return _PUBLIC.get(self, self.value)


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.queued: frozenset(
        {JobState.granted, JobState.cancelling, JobState.cancelled, JobState.expired, JobState.failed}
    ),
    JobState.granted: frozenset({JobState.running, JobState.queued, JobState.cancelling, JobState.expired}),
    JobState.running: frozenset({JobState.completed, JobState.failed, JobState.queued, JobState.cancelling}),
    JobState.cancelling: frozenset({JobState.cancelled}),
}
"""What may follow what. A state that is no key here is final."""

_PUBLIC = {JobState.granted: "queued", JobState.running: "in_progress"}
