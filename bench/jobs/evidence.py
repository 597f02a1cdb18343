"""What the checker judges: a run as clients, the webhook receiver, the catalog, the log and S3 tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Submitted:
    """One order of a client, posted under ``key`` until an answer was clear. ``jobs``: each job that a 2xx answer to it
    named; ``ends``: the states in which it may end; ``hears``: it gave a webhook address."""

    key: str
    tenant: str
    jobs: tuple[str, ...]
    ends: frozenset[str]
    hears: bool = True


@dataclass(frozen=True, slots=True)
class Shown:
    """What the API answered about a job, in the order of the answers."""

    job: str
    status: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the catalog, at rest. ``result`` is its key, bytes and SHA-256."""

    job: str
    tenant: str
    state: str
    version: int
    epoch: int
    result_epoch: int | None
    result: tuple[str, int, str] | None
    cost: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a job's row, written down in the transaction that made it. ``before`` None: it was inserted."""

    job: str
    before: str | None
    after: str
    version: int
    epoch: int
    result_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One write on behalf of an attempt, noted likewise: granted, claimed, leased, beat, charged, or ended with an
    outcome. ``epoch`` is the attempt's, ``newest`` the job's at that moment."""

    what: str
    job: str
    epoch: int
    newest: int


@dataclass(frozen=True, slots=True)
class Attempt:
    job: str
    epoch: int
    worker: str
    incarnation: int
    claimed: bool
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Charge:
    job: str
    epoch: int
    tenant: str
    amount: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook as the catalog keeps it."""

    id: str
    job: str
    type: str
    state: str


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook as the receiver heard it. ``signed``: its signature was right. ``data``: of its body."""

    id: str
    type: str
    job: str
    signed: bool
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A record of jobs.events, or of jobs.requested (whose state is queued)."""

    job: str
    version: int
    epoch: int
    state: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A record of jobs.grants."""

    job: str
    epoch: int
    worker: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """``objects``: bytes and SHA-256 by key. ``leased``: jobs that hold a lease at rest; ``untold``: that wait in the
    outbox. ``used``: what each tenant was charged, by the sums that its quotas go by."""

    submitted: Sequence[Submitted] = ()
    shown: Sequence[Shown] = ()
    jobs: Sequence[Job] = ()
    changes: Sequence[Change] = ()
    effects: Sequence[Effect] = ()
    attempts: Sequence[Attempt] = ()
    charges: Sequence[Charge] = ()
    deliveries: Sequence[Delivery] = ()
    received: Sequence[Received] = ()
    events: Sequence[Event] = ()
    granted: Sequence[Granted] = ()
    objects: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    leased: Sequence[str] = ()
    untold: Sequence[str] = ()
    used: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By tenant: the amount and the number of jobs."""
