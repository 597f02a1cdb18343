"""What an operator looks at: tenants, pools and workers, each with what it does now. Reads only, of all tenants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction


@dataclass(frozen=True, slots=True)
class TenantUse:
    """A tenant, its limits (None: no limit), and what it uses. ``running``: all that has begun and not ended.
    ``amount_today``: millionths of the currency. Days are UTC's."""

    tenant: str
    weight: float
    max_running: int | None
    max_queued: int | None
    requests_per_minute: int | None
    gpu_seconds_per_day: float | None
    retention_days: int
    disabled_at: datetime | None
    created_at: datetime
    keys: int
    webhook_secrets: int
    queued: int
    running: int
    jobs_today: int
    gpu_seconds_today: float
    amount_today: int


@dataclass(frozen=True, slots=True)
class PoolUse:
    """``price``: millionths of the currency for a GPU second. ``busy``: slots that are taken. ``oldest_seconds``: how
    long the oldest queued job waits. ``told_seconds``: since its scheduler said how it stands; None: never."""

    pool: str
    owner: str | None
    fallback: str | None
    price: int
    max_wait_seconds: float | None
    models: list[str]
    workers: int
    slots: int
    busy: int
    queued: int
    running: int
    oldest_seconds: float | None
    told_seconds: float | None


@dataclass(frozen=True, slots=True)
class WorkerUse:
    """``heard_seconds``: since it was heard last. ``jobs``: those that it has, being finished or not."""

    worker: str
    pool: str
    host: str
    state: str
    models: list[str]
    slots: int
    busy: int
    jobs: list[str]
    heard_seconds: float


def tenants(transaction: Transaction, tenant: str | None = None) -> list[TenantUse]:
    """All, by name, or the one."""
    query = """
        SELECT t.tenant, t.weight, t.max_running, t.max_queued, t.requests_per_minute, t.gpu_seconds_per_day,
            t.retention_days, t.disabled_at, t.created_at, cardinality(t.webhook_secrets) AS webhook_secrets,
            (SELECT count(*) FROM api_keys k WHERE k.tenant = t.tenant AND k.revoked_at IS NULL) AS keys,
            coalesce(o.queued, 0) AS queued, coalesce(o.running, 0) AS running, coalesce(u.jobs, 0) AS jobs_today,
            coalesce(u.gpu_seconds, 0) AS gpu_seconds_today, coalesce(u.amount, 0) AS amount_today
        FROM tenants t
        LEFT JOIN (
            SELECT tenant, count(*) FILTER (WHERE state = 'queued') AS queued,
                count(*) FILTER (WHERE state <> 'queued') AS running
            FROM jobs WHERE completed_at IS NULL GROUP BY tenant
        ) o USING (tenant)
        LEFT JOIN usage u ON u.tenant = t.tenant AND u.day = (now() AT TIME ZONE 'UTC')::date
        WHERE t.tenant = coalesce(%s, t.tenant)
        ORDER BY t.tenant
    """
    return rows.selected(transaction, TenantUse, query, [tenant])


def pools(transaction: Transaction, pool: str | None = None) -> list[PoolUse]:
    """All, by name, or the one."""
    query = """
        SELECT p.pool, p.owner, p.fallback, p.price, p.max_wait_seconds,
            ARRAY(SELECT model FROM models m WHERE m.pool = p.pool ORDER BY model) AS models,
            w.workers, w.slots, l.busy, j.queued, j.running, j.oldest_seconds,
            extract(epoch FROM now() - p.board_at)::float8 AS told_seconds
        FROM pools p,
        LATERAL (SELECT count(*) AS workers, coalesce(sum(slots), 0)::bigint AS slots
                 FROM workers w WHERE w.pool = p.pool AND w.state = 'active') w,
        LATERAL (SELECT count(*) AS busy FROM leases l WHERE l.pool = p.pool AND l.stage <> 'finishing') l,
        LATERAL (SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
                        count(*) FILTER (WHERE state <> 'queued') AS running,
                        extract(epoch FROM now() - min(queued_at) FILTER (WHERE state = 'queued'))::float8
                            AS oldest_seconds
                 FROM jobs j WHERE j.pool = p.pool AND j.completed_at IS NULL) j
        WHERE p.pool = coalesce(%s, p.pool)
        ORDER BY p.pool
    """
    return rows.selected(transaction, PoolUse, query, [pool])


def workers(transaction: Transaction, pool: str | None = None) -> list[WorkerUse]:
    """Those of a pool, or all, but not those that are gone."""
    query = """
        SELECT w.worker, w.pool, w.host, w.state, w.models, w.slots,
            (SELECT count(*) FROM leases l WHERE l.worker = w.worker AND l.stage <> 'finishing') AS busy,
            ARRAY(SELECT l.job FROM leases l WHERE l.worker = w.worker ORDER BY l.job) AS jobs,
            extract(epoch FROM now() - w.seen_at)::float8 AS heard_seconds
        FROM workers w
        WHERE w.state <> 'gone' AND w.pool = coalesce(%s, w.pool)
        ORDER BY w.pool, w.worker
    """
    return rows.selected(transaction, WorkerUse, query, [pool])
