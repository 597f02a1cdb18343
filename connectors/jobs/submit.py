"""A job is accepted: one transaction of its row, its idempotency row, and (by trigger) its row for the log.

1. the key    of those who post with one key at once, one takes the key's lock; the others hear ``in_flight``
2. the rows   the key's row and the job's, in the same statement as 1; a key that has a row already adds neither
3. commit     only now the job exists, and only now its owner is told so

A crash before 3 leaves nothing, after it a job whose answer may be lost: the same key answers with the same job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg.types.json import Jsonb

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """``job`` is a new id; ``request`` holds all that was asked for, ``size`` and ``seconds`` (text) among it.
    ``fingerprint``: the hash of what was asked, where there is an ``idempotency_key``."""

    job: str
    tenant: str
    pool: str
    model: str
    request: Mapping[str, Any]
    cost_seconds: float
    priority: int = 0
    deadline: datetime | None = None
    webhook_url: str | None = None
    retry_of: str | None = None
    trace: str | None = None
    idempotency_key: str | None = None
    fingerprint: bytes | None = None


class SubmitOutcome(StrEnum):
    new = "new"
    replayed = "replayed"
    """The key was used before for the same: the job that it made then, as it is now."""
    conflict = "conflict"
    """The key was used before for something else."""
    in_flight = "in_flight"
    """Somebody posts with this key at this moment."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """``view``: the job, where it is new or replayed."""

    outcome: SubmitOutcome
    view: JobView | None = None


_ROW = """
    job, tenant, pool, model, size, seconds, request, priority, cost_seconds, deadline, webhook_url, retry_of, trace)
"""
_VALUES = """
    %(job)s, %(tenant)s, %(pool)s, %(model)s, %(request)s::jsonb ->> 'size', %(request)s::jsonb ->> 'seconds',
    %(request)s::jsonb, %(priority)s, %(cost_seconds)s, %(deadline)s::timestamptz, %(webhook_url)s, %(retry_of)s,
    %(trace)s
"""
_PLAIN = f"INSERT INTO jobs ({_ROW} VALUES ({_VALUES}) RETURNING created_at"
_KEYED = f"""
    WITH key AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(hashtextextended(%(tenant)s || ' ' || %(idempotency_key)s, 0)) AS mine
    ), made AS (
        INSERT INTO idempotency (tenant, key, fingerprint, job)
        SELECT %(tenant)s, %(idempotency_key)s, %(fingerprint)s, %(job)s FROM key WHERE mine
        ON CONFLICT DO NOTHING
        RETURNING job
    ), accepted AS (
        INSERT INTO jobs ({_ROW} SELECT {_VALUES} FROM made RETURNING created_at
    )
    SELECT mine, created_at FROM key LEFT JOIN accepted ON true
"""


def submit(transaction: Transaction, submission: Submission) -> Submitted:
    """The tenant and the pool must exist: nothing here looks."""
    values = asdict(submission) | {"request": Jsonb(submission.request)}
    if submission.idempotency_key is None:
        row = transaction.execute(_PLAIN, values).fetchone()
        assert row is not None
        return Submitted(SubmitOutcome.new, _view(submission, row[0]))
    row = transaction.execute(_KEYED, values).fetchone()
    assert row is not None
    mine, created_at = row
    if not mine:
        return Submitted(SubmitOutcome.in_flight)
    if created_at is not None:
        return Submitted(SubmitOutcome.new, _view(submission, created_at))
    # Its row was there, or a moment ago: the sweeper took it, in which case the client may try again.
    before = earlier(transaction, submission.tenant, submission.idempotency_key, submission.fingerprint)
    return before or Submitted(SubmitOutcome.in_flight)


def earlier(transaction: Transaction, tenant: str, key: str, fingerprint: bytes | None) -> Submitted | None:
    """What the key made before, or what it conflicts with; None for a new key."""
    row = transaction.execute(
        "SELECT job, fingerprint FROM idempotency WHERE tenant = %s AND key = %s", [tenant, key]
    ).fetchone()
    if row is None:
        return None
    if bytes(row[1]) != fingerprint:
        return Submitted(SubmitOutcome.conflict)
    return Submitted(SubmitOutcome.replayed, rows.views(transaction, "WHERE j.job = %s", [row[0]])[0])


def _view(submission: Submission, created_at: datetime) -> JobView:
    """A new job's view: reading it back would say the same."""
    return JobView(
        job=submission.job,
        tenant=submission.tenant,
        pool=submission.pool,
        model=submission.model,
        state=JobState.queued,
        version=1,
        epoch=0,
        result_epoch=None,
        request=submission.request,
        priority=submission.priority,
        cost_seconds=submission.cost_seconds,
        deadline=submission.deadline,
        created_at=created_at,
        queued_at=created_at,
        started_at=None,
        completed_at=None,
        expires_at=None,
        deleted_at=None,
        progress=0,
        step=0,
        steps=0,
        reason="accepted",
        error_code=None,
        error_message=None,
        checkpoint=None,
        result=None,
        cost=None,
        webhook_url=submission.webhook_url,
        retry_of=submission.retry_of,
    )
