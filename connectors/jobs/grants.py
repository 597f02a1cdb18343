"""What a pool's scheduler reads and writes. PostgreSQL is the queue, the scheduler's memory a copy in a better order.

Who owns a pool is decided by ``owner_epoch``: each takeover takes the next one, and what is written under an older one
is refused (``Fenced``). A grant

1. locks   the pool's row, that no takeover comes between; tenants with a limit; the wished jobs, in their order
2. grants  those that are still queued and due, to workers that are still there with a slot free, within their tenant's
           limit: job, attempt and lease in one statement
3. commits

A crash before 3 grants nothing; after it the grants may be untold: the beat's answer names them, or their leases end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from headwater.connectors.jobs import ends, rows
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.rows import AttemptId
from headwater.rules.errors import Fenced
from headwater.rules.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class PoolRow:
    pool: str
    partition: int
    owner_epoch: int
    fallback: str | None
    max_wait_seconds: float | None


class Waiting(NamedTuple):
    """A queued job. Times are microseconds since 1970."""

    job: str
    version: int
    epoch: int
    tenant: str
    model: str
    size: str
    seconds: str
    priority: int
    cost_seconds: float
    queued_us: int
    deadline_us: int | None
    not_before_us: int | None


class Lease(NamedTuple):
    """``stage`` finishing holds no slot any more."""

    job: str
    epoch: int
    tenant: str
    worker: str
    incarnation: int
    stage: str
    cost_seconds: float


@dataclass(frozen=True, slots=True)
class ActiveWorker:
    """``partition``: of jobs.grants."""

    worker: str
    incarnation: int
    slots: int
    partition: int
    models: frozenset[str]


class Limits(NamedTuple):
    tenant: str
    weight: float
    max_running: int | None


class Wish(NamedTuple):
    job: str
    worker: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Grants:
    """``refused``: job and why: gone (not queued, or not due), worker (silent, started anew, or full), tenant."""

    granted: list[AttemptId]
    refused: list[tuple[str, str]]


_WAITING = """
    SELECT job, version, epoch, tenant, model, size, seconds, priority, cost_seconds,
        (extract(epoch FROM queued_at) * 1000000)::bigint, (extract(epoch FROM deadline) * 1000000)::bigint,
        (extract(epoch FROM not_before) * 1000000)::bigint
    FROM jobs
"""
_AFTER = """
    WHERE pool = %s AND completed_at IS NULL AND state = 'queued'
        AND (queued_at, job) > ('epoch'::timestamptz + %s * interval '1 microsecond', %s)
    ORDER BY queued_at, job LIMIT %s
"""


def pools_of(transaction: Transaction, partitions: Sequence[int]) -> list[PoolRow]:
    query = """
        SELECT pool, partition, owner_epoch, fallback, max_wait_seconds FROM pools
        WHERE partition = ANY(%s) ORDER BY pool
    """
    return rows.selected(transaction, PoolRow, query, [list(partitions)])


def take_over(transaction: Transaction, pool: str, owner: str) -> int:
    """The epoch under which ``owner`` now writes; all older ones are fenced."""
    row = transaction.execute(
        "UPDATE pools SET owner = %s, owner_epoch = owner_epoch + 1 WHERE pool = %s RETURNING owner_epoch",
        [owner, pool],
    ).fetchone()
    if row is None:
        raise Fenced(f"there is no pool {pool!r} any more.", asked="Its scheduler was to take it over.")
    return int(row[0])


def waiting(transaction: Transaction, pool: str, after: tuple[int, str] | None, limit: int) -> list[Waiting]:
    """Queued jobs by (queued_us, job), those after the given one."""
    found = transaction.execute(f"{_WAITING} {_AFTER}".encode(), [pool, *(after or (0, "")), limit])
    return [Waiting(*row) for row in found]


def waiting_versions(
    transaction: Transaction, pool: str, after: tuple[int, str] | None, limit: int
) -> list[tuple[int, str, int]]:
    """The same as (queued_us, job, version): what a rescan compares."""
    query = f"SELECT (extract(epoch FROM queued_at) * 1000000)::bigint, job, version FROM jobs {_AFTER}"
    return [tuple(row) for row in transaction.execute(query.encode(), [pool, *(after or (0, "")), limit])]


def waiting_of(transaction: Transaction, jobs: Sequence[str]) -> list[Waiting]:
    """Those of the jobs that are queued."""
    found = transaction.execute(f"{_WAITING} WHERE job = ANY(%s) AND state = 'queued'".encode(), [list(jobs)])
    return [Waiting(*row) for row in found]


def leases_of(transaction: Transaction, pool: str) -> list[Lease]:
    found = transaction.execute(
        "SELECT l.job, l.epoch, l.tenant, l.worker, l.incarnation, l.stage, j.cost_seconds "
        "FROM leases l JOIN jobs j USING (job) WHERE l.pool = %s",
        [pool],
    )
    return [Lease(*row) for row in found]


def workers_of(transaction: Transaction, pool: str, lease_seconds: float) -> list[ActiveWorker]:
    """Those that were heard within a lease's term: who is silent for so long has lost what it had, too."""
    found = transaction.execute(
        "SELECT worker, incarnation, slots, partition, models FROM workers "
        "WHERE pool = %s AND state = 'active' AND seen_at > now() - make_interval(secs => %s) ORDER BY worker",
        [pool, lease_seconds],
    )
    return [
        ActiveWorker(worker, incarnation, slots, partition, frozenset(models))
        for worker, incarnation, slots, partition, models in found
    ]


def models_of(transaction: Transaction, pool: str) -> list[tuple[str, dict[str, Any]]]:
    """Models and capabilities that workers of the pool registered, ever."""
    return [tuple(row) for row in transaction.execute("SELECT model, capabilities FROM models WHERE pool = %s", [pool])]


def tenants_with_limits(transaction: Transaction) -> list[Limits]:
    """The others have weight 1 and no limit."""
    found = transaction.execute(
        "SELECT tenant, weight, max_running FROM tenants WHERE weight <> 1 OR max_running IS NOT NULL"
    )
    return [Limits(*row) for row in found]


_OWNER = "SELECT owner_epoch FROM pools WHERE pool = %s FOR SHARE"
_LIMITED = """
    SELECT FROM tenants WHERE max_running IS NOT NULL AND tenant IN (SELECT tenant FROM jobs WHERE job = ANY(%s))
    ORDER BY tenant FOR NO KEY UPDATE
"""  # of two pools that grant jobs of one limited tenant, the second counts what the first granted
_GRANT = """
    WITH wished AS (
        SELECT * FROM unnest(%(job)s::text[], %(worker)s::text[], %(incarnation)s::bigint[])
            WITH ORDINALITY AS w(job, worker, incarnation, nth)
    ), due AS MATERIALIZED (
        SELECT j.job, j.tenant, j.epoch, w.worker, w.incarnation, w.nth
        FROM jobs j JOIN wished w USING (job)
        WHERE j.state = 'queued' AND j.pool = %(pool)s AND coalesce(j.not_before <= now(), true)
            AND coalesce(j.deadline > now(), true)
        ORDER BY j.job FOR NO KEY UPDATE OF j
    ), placed AS (
        SELECT due.*, row_number() OVER (PARTITION BY due.tenant ORDER BY nth) AS of_tenant FROM (
            SELECT due.*, w.slots, row_number() OVER (PARTITION BY due.worker ORDER BY nth) AS of_worker
            FROM due JOIN workers w USING (worker, incarnation)
            WHERE w.state = 'active' AND w.seen_at > now() - make_interval(secs => %(lease)s)
        ) due
        WHERE of_worker <= slots - (SELECT count(*) FROM leases l
                                    WHERE l.worker = due.worker AND l.stage IN ('granted', 'generating'))
    ), chosen AS (
        SELECT placed.* FROM placed LEFT JOIN tenants USING (tenant)
        WHERE max_running IS NULL
            OR of_tenant <= max_running - (SELECT count(*) FROM leases l WHERE l.tenant = placed.tenant)
    ), granted AS (
        UPDATE jobs j SET state = 'granted', epoch = j.epoch + 1, not_before = NULL, reason = 'granted to a worker'
        FROM chosen c WHERE j.job = c.job AND j.state = 'queued' AND j.epoch = c.epoch
        RETURNING j.job, j.epoch, j.tenant, c.worker, c.incarnation
    ), leased AS (
        INSERT INTO leases (job, epoch, pool, tenant, worker, incarnation, expires_at)
        SELECT job, epoch, %(pool)s, tenant, worker, incarnation, now() + make_interval(secs => %(lease)s) FROM granted
    ), tried AS (
        INSERT INTO attempts (job, epoch, pool, worker, incarnation)
        SELECT job, epoch, %(pool)s, worker, incarnation FROM granted
    )
    SELECT w.job, g.epoch,
        CASE WHEN d.job IS NULL THEN 'gone' WHEN p.job IS NULL THEN 'worker' WHEN g.job IS NULL THEN 'tenant' END
    FROM wished w LEFT JOIN due d USING (job) LEFT JOIN placed p USING (job) LEFT JOIN granted g USING (job)
    ORDER BY w.nth
"""


def grant_batch(
    transaction: Transaction, pool: str, owner_epoch: int, wishes: Sequence[Wish], lease_seconds: float
) -> Grants:
    """Steps 1 and 2, for jobs that are named once each, sent in one go. Raises Fenced: nothing of it stays then."""
    values = rows.columns(wishes, "job", "worker", "incarnation") | {"pool": pool, "lease": lease_seconds}
    with transaction.pipeline():
        owner = transaction.execute(_OWNER, [pool])
        transaction.execute(_LIMITED, [values["job"]])
        placed = transaction.execute(_GRANT, values)
    _refuse_unless_newest(owner.fetchone(), pool, owner_epoch)
    grants = Grants([], [])
    for job, epoch, refusal in placed:
        if refusal is None:
            grants.granted.append(AttemptId(job, epoch))
        else:
            grants.refused.append((job, refusal))
    return grants


def expire_infeasible(
    transaction: Transaction, pool: str, owner_epoch: int, jobs: Sequence[tuple[str, str]]
) -> list[str]:
    """Those of the jobs, given with reasons, that were still queued, and now are expired. Raises Fenced."""
    hold(transaction, pool, owner_epoch)
    reasons = dict(jobs)
    held = ends.hold(transaction, list(reasons), [JobState.queued])
    ends.move(transaction, [ends.Move(one.job, one.epoch, JobState.expired, reasons[one.job]) for one in held])
    return [one.job for one in held]


def publish_board(transaction: Transaction, pool: str, owner_epoch: int, board: dict[str, Any]) -> bool:
    """False: fenced."""
    done = transaction.execute(
        "UPDATE pools SET board = %s, board_at = now() WHERE pool = %s AND owner_epoch = %s",
        [Jsonb(board), pool, owner_epoch],
    )
    return bool(done.rowcount)


def hold(transaction: Transaction, pool: str, owner_epoch: int) -> None:
    """Raises Fenced unless this is the pool's newest owner, which it stays until the transaction ends."""
    _refuse_unless_newest(transaction.execute(_OWNER, [pool]).fetchone(), pool, owner_epoch)


def _refuse_unless_newest(row: tuple[Any, ...] | None, pool: str, owner_epoch: int) -> None:
    if row is None or row[0] != owner_epoch:
        raise Fenced(
            f"another scheduler took over pool {pool!r} under epoch {row[0] if row else None}.",
            asked=f"To schedule it under epoch {owner_epoch}:",
            kept="Nothing was granted.",
            pool=pool,
        )
