"""How an attempt ends, and what becomes of its job: the one place for all ends but a result.

1. hold   the jobs are locked, in the order of their ids: nobody else moves them now
2. move   job, attempt and lease in one statement; the triggers write what others must hear

Who holds decides between 1 and 2 what follows, in the same transaction. A crash before its commit changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction
from headwater.rules.jobs.states import JobState


class Held(NamedTuple):
    """A locked job. ``worker`` and ``incarnation`` are those of its lease, None where it has none.
    ``fallback``: its pool's, if the model is offered there."""

    job: str
    tenant: str
    pool: str
    state: JobState
    epoch: int
    failures: int
    crashes: int
    leases_lost: int
    fallback: str | None
    worker: str | None
    incarnation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is told of an attempt's end. ``outcome`` as in the table ``attempts``."""

    outcome: str
    code: str | None = None
    message: str | None = None
    log_tail: str | None = None
    gpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A held job's next state and why. ``ending``: of the attempt that it had, if it had one.

    ``pool`` None: it stays in its pool. ``failures`` and the others are what they are from now on; None: as before.
    """

    job: str
    epoch: int
    after: JobState
    reason: str
    ending: Ending | None = None
    error_code: str | None = None
    error_message: str | None = None
    pool: str | None = None
    wait_seconds: float = 0.0
    failures: int | None = None
    crashes: int | None = None
    leases_lost: int | None = None


_HELD = """
    SELECT j.job, j.tenant, j.pool, j.state, j.epoch, j.failures, j.crashes, j.leases_lost,
        (SELECT p.fallback FROM pools p JOIN models m ON m.pool = p.fallback AND m.model = j.model
         WHERE p.pool = j.pool), l.worker, l.incarnation
    FROM jobs j LEFT JOIN leases l ON l.job = j.job AND l.epoch = j.epoch
"""


def hold(transaction: Transaction, jobs: Sequence[str], states: Sequence[JobState]) -> list[Held]:
    """Step 1: those of the jobs that are in one of the states."""
    return held(transaction, "WHERE j.job = ANY(%s) AND j.state = ANY(%s) ORDER BY j.job", [list(jobs), list(states)])


def held(
    transaction: Transaction, condition: str, values: Sequence[object], lock: str = "FOR NO KEY UPDATE OF j"
) -> list[Held]:
    """Step 1 for a condition that ends with an order by job. It must name what it relies on of the job itself, such as
    its state: after a wait for the lock only the locked row is looked at anew, not its lease."""
    found = transaction.execute(f"{_HELD} {condition} {lock}".encode(), values)
    return [Held(*row)._replace(state=JobState(row[3])) for row in found]


_MOVE = """
    WITH given AS (
        SELECT * FROM unnest(%(job)s::text[], %(epoch)s::bigint[], %(after)s::text[], %(reason)s::text[],
            %(error_code)s::text[], %(error_message)s::text[], %(pool)s::text[], %(wait_seconds)s::float8[],
            %(failures)s::int[], %(crashes)s::int[], %(leases_lost)s::int[], %(outcome)s::text[], %(code)s::text[],
            %(message)s::text[], %(log_tail)s::text[], %(gpu_seconds)s::float8[])
        AS g(job, epoch, after, reason, error_code, error_message, pool, wait_seconds, failures, crashes, leases_lost,
            outcome, code, message, log_tail, gpu_seconds)
    ), leased AS MATERIALIZED (
        SELECT l.job, l.step, l.steps, least(99, 100 * l.step / nullif(l.steps, 0)) AS percent
        FROM leases l JOIN given g USING (job, epoch)
        WHERE g.outcome IS NOT NULL
        ORDER BY l.job FOR UPDATE OF l
    ), moved AS (
        UPDATE jobs j SET state = g.after, reason = g.reason, error_code = g.error_code,
            error_message = g.error_message, pool = coalesce(g.pool, j.pool),
            progress = coalesce(l.percent, j.progress),
            not_before = CASE WHEN g.wait_seconds > 0 THEN now() + make_interval(secs => g.wait_seconds) END,
            completed_at = CASE WHEN g.after IN ('failed', 'cancelled', 'expired') THEN now() END,
            failures = coalesce(g.failures, j.failures), crashes = coalesce(g.crashes, j.crashes),
            leases_lost = coalesce(g.leases_lost, j.leases_lost)
        FROM given g LEFT JOIN leased l USING (job)
        WHERE j.job = g.job AND j.epoch = g.epoch
        RETURNING j.job, j.epoch
    ), freed AS (
        DELETE FROM leases l USING leased WHERE l.job = leased.job
    ), ended AS (
        UPDATE attempts a SET ended_at = now(), outcome = g.outcome, code = g.code, message = g.message,
            log_tail = g.log_tail, gpu_seconds = g.gpu_seconds, step = l.step, steps = l.steps,
            swept_at = CASE WHEN a.claimed_at IS NULL THEN now() END
        FROM given g LEFT JOIN leased l USING (job)
        WHERE a.job = g.job AND a.epoch = g.epoch AND a.ended_at IS NULL AND g.outcome IS NOT NULL
    )
    SELECT count(*) FROM moved
"""
"""An attempt that was never claimed left nothing that would have to be swept."""

_NO_ENDING = Ending(outcome="")


def move(transaction: Transaction, moves: Sequence[Move]) -> None:
    """Step 2. The jobs are held, at these epochs."""
    if not moves:
        return
    of_jobs = rows.columns(
        moves, "job", "epoch", "after", "reason", "error_code", "error_message", "pool", "wait_seconds", "failures",
        "crashes", "leases_lost",
    )  # fmt: skip
    endings = [one.ending or _NO_ENDING for one in moves]
    of_attempts = rows.columns(endings, "code", "message", "log_tail", "gpu_seconds")
    of_attempts["outcome"] = [ending.outcome or None for ending in endings]
    transaction.execute(_MOVE.encode(), of_jobs | of_attempts)
