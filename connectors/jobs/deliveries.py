"""Webhooks that wait, are under way, or ended. The row comes with the job's final state, by a trigger on ``jobs``.

Several senders may work at once: what one has taken is its own until ``taken_until``. A sender that dies leaves its
rows to the next after that, with the same id, so that the receiver knows what it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.catalog.client import Transaction
from headwater.rules.jobs.webhooks import LIFE_SECONDS, Verdict


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery that could be made now. ``endpoint`` is who shares a cap and a breaker: the tenant at one host."""

    delivery: str
    endpoint: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One that is ours to make. ``attempts`` were made before; ``secrets`` sign it, the newest first."""

    delivery: str
    endpoint: str
    tenant: str
    job: str
    type: str
    url: str
    attempts: int
    secrets: tuple[str, ...]
    disabled: bool
    """The endpoint wants nothing any more: it answered 410."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``wait_seconds`` to the next one; None, where it is not delivered: there is none."""

    delivery: Delivery
    verdict: Verdict
    status: int | None
    error: str | None
    wait_seconds: float | None

    @property
    def sent(self) -> bool:
        """Whether anything left: for an endpoint that is disabled, or a tenant without a secret, nothing does."""
        return self.verdict is not Verdict.disabled or self.status is not None


@dataclass(frozen=True, slots=True)
class Shown:
    """A delivery as its owner sees it."""

    delivery: str
    type: str
    url: str
    state: str
    attempts: int
    due_at: datetime
    last_status: int | None
    last_error: str | None
    created_at: datetime
    ended_at: datetime | None


def due(
    transaction: Transaction, *, full_endpoints: Sequence[str], full_tenants: Sequence[str], limit: int
) -> list[Due]:
    """What is due and nobody has, the longest due first; nobody else gets these before the transaction ends."""
    rows = transaction.execute(
        """
        SELECT delivery, endpoint, tenant FROM deliveries
        WHERE state = 'pending' AND due_at <= now() AND (taken_until IS NULL OR taken_until <= now())
            AND endpoint <> ALL(%s) AND tenant <> ALL(%s)
        ORDER BY due_at LIMIT %s
        FOR UPDATE SKIP LOCKED
        """,
        [list(full_endpoints), list(full_tenants), limit],
    )
    return [Due(*row) for row in rows]


def take(transaction: Transaction, sender: str, chosen: Sequence[Due], hold_seconds: float) -> list[Delivery]:
    """Make these ours for ``hold_seconds``: longer than any attempt takes."""
    if not chosen:
        return []
    rows = transaction.execute(
        """
        UPDATE deliveries d SET taken_by = %s, taken_until = now() + make_interval(secs => %s)
        FROM tenants t
        WHERE d.delivery = ANY(%s) AND t.tenant = d.tenant
        RETURNING d.delivery, d.endpoint, d.tenant, d.job, d.type, d.url, d.attempts, t.webhook_secrets,
            EXISTS (SELECT FROM disabled_endpoints e WHERE (e.tenant, e.url) = (d.tenant, d.url))
        """,
        [sender, hold_seconds, [one.delivery for one in chosen]],
    )
    return [
        Delivery(delivery, endpoint, tenant, job, kind, url, attempts, tuple(secrets), disabled)
        for delivery, endpoint, tenant, job, kind, url, attempts, secrets, disabled in rows
    ]


def note(transaction: Transaction, sender: str, outcomes: Sequence[Outcome]) -> None:
    """Write down how attempts ended. Repeating it changes nothing.

    What was delivered is delivered, whoever has the row by now. A failure counts only where the row is still ours: who
    took it over in between makes an attempt of its own.
    """
    if not outcomes:
        return
    transaction.execute(
        """
        UPDATE deliveries d SET
            state = CASE WHEN g.verdict = 'delivered' THEN 'delivered'
                         WHEN g.wait IS NULL THEN 'failed' ELSE 'pending' END,
            ended_at = CASE WHEN g.wait IS NULL THEN now() END,
            due_at = now() + make_interval(secs => coalesce(g.wait, 0)),
            attempts = g.attempts, last_status = g.status, last_error = g.error, taken_by = NULL, taken_until = NULL
        FROM unnest(%s::text[], %s::text[], %s::float8[], %s::int[], %s::int[], %s::text[])
            AS g (delivery, verdict, wait, attempts, status, error)
        WHERE d.delivery = g.delivery AND (
            (d.state = 'pending' AND d.taken_by = %s) OR (g.verdict = 'delivered' AND d.state <> 'delivered'))
        """,
        [
            [one.delivery.delivery for one in outcomes],
            [one.verdict.value for one in outcomes],
            [one.wait_seconds for one in outcomes],
            [one.delivery.attempts + one.sent for one in outcomes],
            [one.status for one in outcomes],
            [one.error for one in outcomes],
            sender,
        ],
    )
    gone = [one.delivery for one in outcomes if one.verdict is Verdict.disabled and one.sent]
    if gone:
        _disable(transaction, gone)


def _disable(transaction: Transaction, gone: Sequence[Delivery]) -> None:
    urls = [[one.tenant for one in gone], [one.url for one in gone], [one.endpoint for one in gone]]
    transaction.execute(
        "INSERT INTO disabled_endpoints (tenant, url, reason) SELECT DISTINCT tenant, url, 'it answered 410' "
        "FROM unnest(%s::text[], %s::text[]) AS g (tenant, url) ON CONFLICT DO NOTHING",
        urls[:2],
    )
    transaction.execute(
        """
        UPDATE deliveries d SET state = 'failed', ended_at = now(), last_error = 'the endpoint answered 410 to another'
        FROM (SELECT DISTINCT * FROM unnest(%s::text[], %s::text[], %s::text[])) AS g (tenant, url, endpoint)
        WHERE d.state = 'pending' AND d.endpoint = g.endpoint AND d.url = g.url
        """,
        urls,
    )


def postpone(transaction: Transaction, endpoint: str, rest_seconds: float, *, limit: int) -> tuple[int, int]:
    """Nothing of the endpoint is due while it rests; what waits longer than a schedule lasts has failed.

    Returns how many were moved, and how many of these have failed. ``limit`` were moved: there may be more, call again.
    """
    rows = transaction.execute(
        """
        UPDATE deliveries d SET
            state = CASE WHEN old THEN 'failed' ELSE 'pending' END, ended_at = CASE WHEN old THEN now() END,
            due_at = now() + make_interval(secs => %(rest)s),
            last_error = CASE WHEN old THEN 'given up: the endpoint did not take anything for days' ELSE last_error END
        FROM (SELECT delivery AS id, begun_at < now() - make_interval(secs => %(life)s) AS old FROM deliveries
              WHERE state = 'pending' AND endpoint = %(endpoint)s AND due_at < now() + make_interval(secs => %(rest)s)
                  AND (taken_until IS NULL OR taken_until <= now())
              LIMIT %(limit)s FOR UPDATE SKIP LOCKED) waiting
        WHERE d.delivery = waiting.id
        RETURNING old
        """,
        {"endpoint": endpoint, "rest": rest_seconds, "life": LIFE_SECONDS, "limit": limit},
    ).fetchall()
    return len(rows), sum(old for (old,) in rows)


def oldest_due_seconds(transaction: Transaction, *, full_endpoints: Sequence[str]) -> float:
    """How long the oldest of what is due waits; 0 where nothing is."""
    row = transaction.execute(
        """
        SELECT extract(epoch FROM now() - min(due_at))::float8 FROM deliveries
        WHERE state = 'pending' AND due_at <= now() AND (taken_until IS NULL OR taken_until <= now())
            AND endpoint <> ALL(%s)
        """,
        [list(full_endpoints)],
    ).fetchone()
    return (row[0] if row else None) or 0.0


def of_job(transaction: Transaction, tenant: str, job: str) -> list[Shown]:
    """The webhooks of a tenant's job."""
    rows = transaction.execute(
        """
        SELECT delivery, type, url, state, attempts, due_at, last_status, last_error, created_at, ended_at
        FROM deliveries WHERE job = %s AND tenant = %s ORDER BY created_at
        """,
        [job, tenant],
    )
    return [Shown(*row) for row in rows]


def replay(transaction: Transaction, tenant: str, job: str, delivery: str) -> bool:
    """Deliver it again from the start of the schedule, with the same id; the endpoint is not disabled any more.

    Returns whether the tenant's job has such a delivery.
    """
    row = transaction.execute(
        """
        UPDATE deliveries SET state = 'pending', attempts = 0, due_at = now(), begun_at = now(), ended_at = NULL,
            taken_by = NULL, taken_until = NULL
        WHERE delivery = %s AND job = %s AND tenant = %s RETURNING url
        """,
        [delivery, job, tenant],
    ).fetchone()
    if row is None:
        return False
    transaction.execute("DELETE FROM disabled_endpoints WHERE tenant = %s AND url = %s", [tenant, row[0]])
    return True
