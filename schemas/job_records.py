"""The typed records of generation jobs, one frozen class per Avro schema: the .avsc says what each field means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headwater.schemas.records import Record


class GrantKind(StrEnum):
    unknown = "unknown"
    granted = "granted"
    cancel = "cancel"


class JobEventKind(StrEnum):
    unknown = "unknown"
    state = "state"
    progress = "progress"


class EventState(StrEnum):
    unknown = "unknown"
    queued = "queued"
    granted = "granted"
    running = "running"
    completed = "completed"
    failed = "failed"
    cancelling = "cancelling"
    cancelled = "cancelled"
    expired = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequested(Record):
    schema_name: ClassVar[str] = "job_requested"
    job: str
    version: int
    epoch: int
    pool: str
    tenant: str
    model: str
    size: str
    seconds: str
    priority: int
    cost_seconds: float
    queued_us: int
    deadline_us: int | None = None
    not_before_us: int | None = None

    def key(self) -> bytes:
        return self.job.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGrant(Record):
    schema_name: ClassVar[str] = "job_grant"
    kind: GrantKind
    job: str
    epoch: int
    pool: str
    worker: str
    incarnation: int
    lease_seconds: float
    at_us: int

    def key(self) -> bytes:
        return self.worker.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Record):
    schema_name: ClassVar[str] = "job_event"
    kind: JobEventKind
    job: str
    version: int
    epoch: int
    state: EventState
    pool: str
    tenant: str
    progress: int
    step: int = 0
    steps: int = 0
    reason: str
    at_us: int

    def key(self) -> bytes:
        return self.job.encode()


ALL: tuple[type[Record], ...] = (JobRequested, JobGrant, JobEvent)
