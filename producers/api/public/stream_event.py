"""What a stream tells of a job: one event, whole in itself, and its place in the order of the job's events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from headwater.rules.errors import BadRecord
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView
from headwater.schemas.codec import decode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind

Place = tuple[int, int]
"""The job's version, and the step within it: events are told in this order, each at most once to a stream."""

_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """``at_us`` is when it happened, as far as that is known."""

    job: str
    place: Place
    state: JobState
    progress: int
    attempt: int
    step: int
    steps: int
    reason: str
    at_us: int

    @property
    def id(self) -> str:
        """The event's id, which a client sends back as ``Last-Event-ID``."""
        return f"{self.place[0]}-{self.place[1]}"

    @property
    def name(self) -> str:
        return "status" if self.place[1] == 0 else "progress"

    def data(self) -> dict[str, Any]:
        return {
            "id": self.job,
            "object": "video.event",
            "status": self.state.public,
            "progress": 100 if self.state is JobState.completed else self.progress,
            "attempt": self.attempt,
            "step": self.step,
            "steps": self.steps,
            "reason": self.reason,
            "version": self.place[0],
            "at": self.at_us / 1e6,
        }

    @classmethod
    def of_value(cls, value: bytes) -> Self | None:
        """Of a record on the log; None for garbage, which the groups bury, and for what a newer release says."""
        try:
            event = decode(value)
        except BadRecord:
            return None
        if not isinstance(event, JobEvent) or EventState.unknown is event.state or JobEventKind.unknown is event.kind:
            return None
        step = event.step if event.kind is JobEventKind.progress else 0
        return cls(
            event.job,
            (event.version, step),
            JobState(event.state),
            event.progress,
            event.epoch,
            event.step,
            event.steps,
            event.reason,
            event.at_us,
        )

    @classmethod
    def of_view(cls, job: JobView, now_us: int) -> Self:
        """What the catalog says now."""
        step = job.step if job.state is JobState.running else 0
        return cls(
            job.job,
            (job.version, step),
            job.state,
            job.progress,
            job.epoch,
            job.step,
            job.steps,
            job.reason,
            now_us,
        )


def place_of(event_id: str) -> Place | None:
    """The place that an event's id names; None: it is no id of ours."""
    found = _ID.fullmatch(event_id)
    return (int(found[1]), int(found[2])) if found else None
