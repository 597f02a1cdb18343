"""What is counted of the attempts that a transaction ended: asked within it, and of nothing that was repeated.

It looks for what bears the moment of the transaction itself, so that an answer which was lost and is given again
counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.rows import AttemptId
from headwater.rules.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt's end. ``state``: of its job since; ``amount``: what it was charged, in millionths."""

    pool: str
    model: str
    epoch: int
    outcome: str
    code: str | None
    state: JobState
    gpu_seconds: float
    ran_seconds: float
    amount: int


def ended(transaction: Transaction, ids: Iterable[AttemptId]) -> list[Ended]:
    found = transaction.execute(
        """
        SELECT a.pool, j.model, a.epoch, a.outcome, a.code, j.state, coalesce(a.gpu_seconds, 0),
            coalesce(extract(epoch FROM a.ended_at - a.claimed_at), 0)::float8,
            CASE WHEN a.outcome = 'completed' THEN coalesce(j.cost, 0) ELSE 0 END
        FROM unnest(%(job)s::text[], %(epoch)s::bigint[]) AS g(job, epoch)
            JOIN attempts a USING (job, epoch) JOIN jobs j USING (job)
        WHERE a.ended_at = now()
        """,
        rows.columns(ids, "job", "epoch"),
    )
    return [
        Ended(pool, model, epoch, outcome, code, JobState(state), gpu_seconds, ran_seconds, amount)
        for pool, model, epoch, outcome, code, state, gpu_seconds, ran_seconds, amount in found
    ]
