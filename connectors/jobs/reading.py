"""Jobs as their owners see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView


@dataclass(frozen=True, slots=True)
class Attempt:
    """One grant, and how it ended. ``outcome`` is None while it goes on."""

    job: str
    epoch: int
    pool: str
    worker: str
    incarnation: int
    granted_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    code: str | None
    message: str | None
    log_tail: str | None
    step: int | None
    steps: int | None
    resumed_step: int | None
    gpu_seconds: float | None
    swept_at: datetime | None


def get(transaction: Transaction, tenant: str, job: str) -> JobView | None:
    """Deleted ones too: ``deleted_at`` says so. None: the tenant has no such job."""
    found = rows.views(transaction, "WHERE j.job = %s AND j.tenant = %s", [job, tenant])
    return found[0] if found else None


def present(transaction: Transaction, jobs: Sequence[str]) -> list[JobView]:
    """Those jobs, whoever's they are, in no order."""
    return rows.views(transaction, "WHERE j.job = ANY(%s)", [list(jobs)])


def listed(
    transaction: Transaction,
    tenant: str,
    *,
    after: str | None,
    limit: int,
    states: Sequence[JobState] | None = None,
    oldest_first: bool = False,
) -> list[JobView]:
    """At most ``limit`` jobs of a tenant that it did not delete, the newest first: ids sort by time. ``after``: the
    last job of the page before."""
    sign, order = (">", "ASC") if oldest_first else ("<", "DESC")
    condition, values = "WHERE j.tenant = %s AND j.deleted_at IS NULL", [tenant]  # type: tuple[str, list[object]]
    if after is not None:
        condition += f" AND j.job {sign} %s"
        values.append(after)
    if states is not None:
        condition += " AND j.state = ANY(%s)"
        values.append([str(state) for state in states])
    return rows.views(transaction, f"{condition} ORDER BY j.job {order} LIMIT %s", [*values, limit])


def attempts(transaction: Transaction, tenant: str, job: str) -> list[Attempt]:
    """The attempts of a tenant's job, the first one first; none for a job that it does not have."""
    query = """
        SELECT a.job, a.epoch, a.pool, a.worker, a.incarnation, a.granted_at, a.claimed_at, a.ended_at, a.outcome,
            a.code, a.message, a.log_tail, coalesce(a.step, l.step) AS step, coalesce(a.steps, l.steps) AS steps,
            a.resumed_step, a.gpu_seconds, a.swept_at
        FROM attempts a JOIN jobs j USING (job) LEFT JOIN leases l ON l.job = a.job AND l.epoch = a.epoch
        WHERE a.job = %s AND j.tenant = %s ORDER BY a.epoch
    """
    return rows.selected(transaction, Attempt, query, [job, tenant])
