"""The end of an attempt, told by its worker: the one commit point of a job, and the other ways to end.

``complete``, in one transaction:
1. lock    the jobs of this worker's epoch and life, in their order, and their leases; cancelled ones end so, in 2
2. write   state, result and its epoch; the charge and the day's usage; attempt and lease; by trigger the row for the
           log and the delivery of its webhook
3. commit  from now on the job has this result and no other

A crash before 3 leaves a running job, whose worker asks again or loses its lease. After it, the answer may be lost:
asked again, the attempt's row says who won. An attempt that was superseded finds no row in 1, whatever it uploaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headwater.connectors.jobs import ends, rows
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.ends import Ending, Held, Move
from headwater.connectors.jobs.leases import Beat, keep_checkpoints
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.rules.jobs.failures import FailurePolicy, Past, judge
from headwater.rules.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Result:
    """``result``: key, bytes, sha256, container, …"""

    job: str
    epoch: int
    result: dict[str, Any]
    gpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    job: str
    epoch: int
    code: str
    message: str
    log_tail: str
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    job: str
    epoch: int
    gpu_seconds: float


class EndOutcome(StrEnum):
    won = "won"
    """It took effect, now or when it was asked before."""
    lost = "lost"
    """The attempt is not this worker's any more: nothing changed."""
    cancelled = "cancelled"
    """Its owner had cancelled it: it ended so."""


Ends = dict[AttemptId, EndOutcome]

_COMPLETE = """
    WITH given AS (
        SELECT * FROM unnest(%(job)s::text[], %(epoch)s::bigint[], %(result)s::jsonb[], %(gpu_seconds)s::float8[])
            AS g(job, epoch, result, gpu_seconds)
    ), held AS MATERIALIZED (
        SELECT j.job, j.epoch, j.state, j.tenant, j.checkpoint IS NULL AS tidy, g.result, g.gpu_seconds,
            l.step, l.steps, coalesce(t.retention_days, 30) AS days,
            round(g.gpu_seconds * coalesce(p.price, 0))::bigint AS amount
        FROM given g JOIN jobs j USING (job, epoch) JOIN leases l USING (job, epoch)
            LEFT JOIN pools p ON p.pool = j.pool LEFT JOIN tenants t ON t.tenant = j.tenant
        WHERE j.state IN ('running', 'cancelling') AND l.worker = %(worker)s AND l.incarnation = %(incarnation)s
        ORDER BY j.job FOR UPDATE OF j, l
    ), done AS (
        SELECT * FROM held WHERE state = 'running'
    ), won AS (
        UPDATE jobs j SET state = 'completed', result_epoch = h.epoch, result = h.result, cost = h.amount,
            progress = 100, completed_at = now(), expires_at = now() + make_interval(days => h.days),
            reason = 'completed'
        FROM done h WHERE j.job = h.job
        RETURNING j.job, j.epoch
    ), charged AS (
        INSERT INTO charges (job, epoch, tenant, gpu_seconds, amount)
        SELECT job, epoch, tenant, gpu_seconds, amount FROM done
    ), used AS (
        INSERT INTO usage AS u (tenant, day, gpu_seconds, amount, jobs)
        SELECT tenant, (now() AT TIME ZONE 'UTC')::date, sum(gpu_seconds), sum(amount), count(*) FROM done
        GROUP BY tenant ORDER BY tenant
        ON CONFLICT (tenant, day) DO UPDATE SET gpu_seconds = u.gpu_seconds + excluded.gpu_seconds,
            amount = u.amount + excluded.amount, jobs = u.jobs + excluded.jobs
    ), freed AS (
        DELETE FROM leases l USING done h WHERE l.job = h.job
    ), ended AS (
        UPDATE attempts a SET ended_at = now(), outcome = 'completed', gpu_seconds = h.gpu_seconds, step = h.step,
            steps = h.steps, swept_at = CASE WHEN h.tidy THEN now() END
        FROM done h WHERE a.job = h.job AND a.epoch = h.epoch
    )
    SELECT job, epoch FROM won
"""
"""A result without checkpoints left nothing to be swept."""


_ENDED = """
    SELECT a.job, a.epoch, a.outcome
    FROM unnest(%(job)s::text[], %(epoch)s::bigint[]) AS g(job, epoch) JOIN attempts a USING (job, epoch)
    WHERE a.worker = %(worker)s AND a.incarnation = %(incarnation)s
"""


def complete(transaction: Transaction, holder: Holder, results: Sequence[Result]) -> Ends:
    """Steps 1 and 2; an outcome for each result."""
    values = rows.columns(results, "job", "epoch", "result", "gpu_seconds") | holder._asdict()
    found = transaction.execute(_COMPLETE.encode(), values).fetchall()
    outcomes = dict.fromkeys((AttemptId(*row) for row in found), EndOutcome.won)
    rest = [one for one in results if AttemptId(one.job, one.epoch) not in outcomes]
    if rest:
        spent = {AttemptId(one.job, one.epoch): one.gpu_seconds for one in rest}
        with transaction.transaction():
            moves = [_cancelled(one, spent) for one in _mine(transaction, holder, spent, JobState.cancelling)]
            outcomes |= _ended(transaction, holder, spent, moves, "completed")
    return outcomes


def fail(
    transaction: Transaction,
    holder: Holder,
    failures: Sequence[Failure],
    policy: FailurePolicy,
    chance: Callable[[], float],
) -> Ends:
    """Whether the jobs get another attempt, when and where, ``policy`` says. ``chance``: uniform in [0, 1)."""
    told = {AttemptId(one.job, one.epoch): one for one in failures}
    spent = {id: one.gpu_seconds for id, one in told.items()}
    held = _mine(transaction, holder, told, JobState.running, JobState.cancelling)
    same = _same_codes(transaction, failures)
    moves = [
        _cancelled(one, spent)
        if one.state is JobState.cancelling
        else _after_failure(one, told[AttemptId(one.job, one.epoch)], policy, same.get(one.job, 0), chance())
        for one in held
    ]
    return _ended(transaction, holder, told, moves, "failed")


def release(transaction: Transaction, holder: Holder, releases: Sequence[Beat]) -> Ends:
    """The worker gives back what it did not finish; the checkpoint is kept, and nothing is counted."""
    keep_checkpoints(transaction, holder, releases)
    ids = [AttemptId(one.job, one.epoch) for one in releases]
    held = _mine(transaction, holder, ids, JobState.granted, JobState.running, JobState.cancelling)
    moves = [_cancelled(one, {}) if one.state is JobState.cancelling else _given_back(one) for one in held]
    return _ended(transaction, holder, ids, moves, "released")


def stopped(transaction: Transaction, holder: Holder, proofs: Sequence[Stopped]) -> Ends:
    """Nothing of these cancelled jobs runs any more."""
    spent = {AttemptId(one.job, one.epoch): one.gpu_seconds for one in proofs}
    moves = [_cancelled(one, spent) for one in _mine(transaction, holder, spent, JobState.cancelling)]
    ended = _ended(transaction, holder, spent, moves, "cancelled")
    return {id: EndOutcome.lost if outcome is EndOutcome.lost else EndOutcome.won for id, outcome in ended.items()}


def _mine(transaction: Transaction, holder: Holder, ids: Iterable[AttemptId], *states: JobState) -> list[Held]:
    """Those that this worker has, in its present life; locked."""
    given = rows.columns(ids, "job", "epoch")
    condition = (
        "WHERE (j.job, j.epoch) IN (SELECT * FROM unnest(%s::text[], %s::bigint[])) "
        "AND l.worker = %s AND l.incarnation = %s AND j.state = ANY(%s) ORDER BY j.job"
    )
    return ends.held(transaction, condition, [given["job"], given["epoch"], *holder, list(map(str, states))])


def _cancelled(held: Held, spent: Mapping[AttemptId, float]) -> Move:
    ending = Ending(outcome="cancelled", gpu_seconds=spent.get(AttemptId(held.job, held.epoch)))
    return Move(held.job, held.epoch, JobState.cancelled, "cancelled by its owner", ending)


def _given_back(held: Held) -> Move:
    return Move(held.job, held.epoch, JobState.queued, "its worker gave it back", Ending(outcome="released"))


def _after_failure(held: Held, failure: Failure, policy: FailurePolicy, same_code: int, chance: float) -> Move:
    past = Past(failures=held.failures, crashes=held.crashes, leases_lost=held.leases_lost, same_code=same_code)
    verdict = judge(failure.code, past, policy, chance)
    ending = Ending(
        outcome="failed",
        code=failure.code,
        message=failure.message,
        log_tail=failure.log_tail,
        gpu_seconds=failure.gpu_seconds,
    )
    return Move(
        held.job,
        held.epoch,
        JobState.queued if verdict.retry else JobState.failed,
        f"{failure.code}: {'it is tried again' if verdict.retry else failure.message}",
        ending,
        error_code=None if verdict.retry else verdict.code,
        error_message=None if verdict.retry else failure.message,
        pool=held.fallback if verdict.retry and verdict.fallback else None,
        wait_seconds=verdict.wait_seconds,
        failures=verdict.past.failures,
        crashes=verdict.past.crashes,
        leases_lost=verdict.past.leases_lost,
    )


def _same_codes(transaction: Transaction, failures: Sequence[Failure]) -> dict[str, int]:
    """How often each job failed with this code in its present pool."""
    found = transaction.execute(
        """
        SELECT a.job, count(*) FROM unnest(%(job)s::text[], %(code)s::text[]) AS g(job, code)
            JOIN jobs j USING (job) JOIN attempts a USING (job, code)
        WHERE a.pool = j.pool AND a.outcome = 'failed' GROUP BY a.job
        """,
        rows.columns(failures, "job", "code"),
    )
    return {row[0]: row[1] for row in found}


def _ended(
    transaction: Transaction, holder: Holder, ids: Iterable[AttemptId], moves: Sequence[Move], outcome: str
) -> Ends:
    """Makes the moves; then an outcome for each of ``ids``, by how it ended, now or when it was asked before."""
    ends.move(transaction, moves)
    listed = list(ids)
    answers = dict.fromkeys(listed, EndOutcome.lost)
    for job, epoch, ended in transaction.execute(_ENDED, rows.columns(listed, "job", "epoch") | holder._asdict()):
        if ended == outcome:
            answers[AttemptId(job, epoch)] = EndOutcome.won
        elif ended == "cancelled":
            answers[AttemptId(job, epoch)] = EndOutcome.cancelled
    return answers
