"""Who works on what, for how long still: claims and beats. Only the database's clock counts.

A grant gives a lease for one term. Its worker claims it, in the life to which it was granted; each beat then extends it
by a term from now, as long as the model comes forward. Both may be repeated: what an answer that was lost said is said
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from headwater.connectors.jobs import rows, workers
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.rows import AttemptId, Holder

USUAL_STEPS = 10
"""A step may take so many times what the steps before took, where that is longer than the model's own limit."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """``crashes``: so often a model's process died over this input. ``waited_seconds``: since the job was accepted,
    where its first attempt begins now; None: it began before."""

    job: str
    epoch: int
    model: str
    request: dict[str, Any]
    checkpoint: dict[str, Any] | None
    crashes: int
    pool: str
    waited_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """``stage``: granted (it waits for the model), generating, finishing. ``checkpoint``: key, step, epoch; None: the
    one that was told before is the newest."""

    job: str
    epoch: int
    step: int
    steps: int
    stage: str
    checkpoint: dict[str, Any] | None = None


class BeatOutcome(StrEnum):
    extended = "extended"
    stalled = "stalled"
    """It did not come forward for too long: the lease stays as it is."""
    cancel = "cancel"
    """Extended, but its owner wants no more of it."""


class Beaten(NamedTuple):
    """``before``: the step that the beat before told; ``entered``: the stage is another than then."""

    job: str
    epoch: int
    outcome: BeatOutcome
    version: int
    pool: str
    tenant: str
    before: int
    entered: bool


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """``beats``: what the worker still has; what it named besides is lost. ``granted``: what it may claim."""

    beats: list[Beaten] = field(default_factory=list)
    granted: list[AttemptId] = field(default_factory=list)
    unknown_worker: bool = False


_CLAIM = """
    WITH given AS (
        SELECT * FROM unnest(%(job)s::text[], %(epoch)s::bigint[]) AS g(job, epoch)
    ), held AS MATERIALIZED (
        SELECT j.job, j.epoch, j.model, j.pool, j.checkpoint
        FROM jobs j JOIN given g USING (job, epoch) JOIN leases l USING (job, epoch)
        WHERE j.state = 'granted' AND coalesce(j.deadline > now(), true)
            AND l.worker = %(worker)s AND l.incarnation = %(incarnation)s
        ORDER BY j.job FOR UPDATE OF j, l
    ), claimed AS (
        UPDATE jobs j SET state = 'running', started_at = coalesce(j.started_at, now()), reason = 'a worker began'
        FROM held h WHERE j.job = h.job
        RETURNING j.job, j.epoch, j.model, j.request, j.checkpoint, j.crashes, j.pool,
            CASE WHEN j.started_at = now() THEN extract(epoch FROM now() - j.queued_at)::float8 END AS waited
    ), leased AS (
        UPDATE leases l SET expires_at = now() + make_interval(secs => %(term)s), step_at = now(),
            step_limit = coalesce((m.capabilities ->> 'step_limit_seconds')::float8, 0),
            load_limit = coalesce((m.capabilities ->> 'load_limit_seconds')::float8, 0)
        FROM held h LEFT JOIN models m USING (model, pool) WHERE l.job = h.job
    ), tried AS (
        UPDATE attempts a SET claimed_at = now(), resumed_step = (h.checkpoint ->> 'step')::int
        FROM held h WHERE a.job = h.job AND a.epoch = h.epoch
    )
    SELECT job, epoch, model, request, checkpoint, crashes, pool, waited FROM claimed
"""
_MINE = """
    SELECT j.job, j.epoch, j.model, j.request, j.checkpoint, j.crashes, j.pool, NULL
    FROM unnest(%(job)s::text[], %(epoch)s::bigint[]) AS g(job, epoch)
        JOIN jobs j USING (job, epoch) JOIN leases l USING (job, epoch)
    WHERE j.state = 'running' AND l.worker = %(worker)s AND l.incarnation = %(incarnation)s
"""


def claim(transaction: Transaction, holder: Holder, grants: Sequence[AttemptId], term_seconds: float) -> list[Claimed]:
    """Those of the grants that are, or were before, this worker's to run. The others are gone. In ``autocommit`` it is
    one round trip."""
    values = rows.columns(grants, "job", "epoch") | holder._asdict() | {"term": term_seconds}
    claimed = [Claimed(*row) for row in transaction.execute(_CLAIM.encode(), values)]
    if len(claimed) < len(grants):  # claimed before, and the answer was lost
        now = {one.job for one in claimed}
        claimed += [one for row in transaction.execute(_MINE.encode(), values) if (one := Claimed(*row)).job not in now]
    return claimed


_BEAT = f"""
    WITH given AS (
        SELECT * FROM unnest(%(job)s::text[], %(epoch)s::bigint[], %(step)s::int[], %(steps)s::int[], %(stage)s::text[])
            AS g(job, epoch, step, steps, stage)
    ), held AS MATERIALIZED (
        SELECT l.job, l.epoch, j.state, j.version, j.pool, j.tenant, l.step AS before, l.stage <> g.stage AS entered,
            greatest(g.step, l.step) AS step, g.steps, g.stage,
            g.step > l.step OR l.stage <> g.stage OR g.stage <> 'generating' AS moved,
            extract(epoch FROM now() - l.step_at)::float8 / greatest(g.step - l.step, 1) AS took, l.step_seconds,
            greatest(CASE WHEN l.step = 0 THEN l.load_limit ELSE l.step_limit END, {USUAL_STEPS} * l.step_seconds)
                AS most, l.step_at
        FROM leases l JOIN given g USING (job, epoch) JOIN jobs j USING (job)
        WHERE l.worker = %(worker)s AND l.incarnation = %(incarnation)s AND j.state IN ('running', 'cancelling')
        ORDER BY l.job FOR UPDATE OF l
    ), judged AS (
        SELECT held.*, NOT moved AND most > 0 AND now() - step_at > make_interval(secs => most) AS stalled FROM held
    ), beaten AS (
        UPDATE leases l SET stage = h.stage, step = h.step, steps = h.steps,
            step_at = CASE WHEN h.moved THEN now() ELSE l.step_at END,
            step_seconds = CASE WHEN h.step > h.before AND h.before > 0
                THEN 0.8 * coalesce(h.step_seconds, h.took) + 0.2 * least(h.took, 4 * coalesce(h.step_seconds, h.took))
                ELSE l.step_seconds END,
            expires_at = CASE WHEN h.stalled THEN l.expires_at ELSE now() + make_interval(secs => %(term)s) END
        FROM judged h WHERE l.job = h.job
    )
    SELECT job, epoch, CASE WHEN stalled THEN 'stalled' WHEN state = 'cancelling' THEN 'cancel' ELSE 'extended' END,
        version, pool, tenant, before, entered
    FROM judged
"""


def beat(
    transaction: Transaction, holder: Holder, beats: Sequence[Beat], term_seconds: float, *, draining: bool
) -> BeatAnswer:
    """The worker lives. A model that is generating must come forward: in a step it may spend the model's limit, or ten
    times what its steps usually take, before the first one what loading may take."""
    if not workers.seen(transaction, holder, draining=draining):
        return BeatAnswer(unknown_worker=True)
    keep_checkpoints(transaction, holder, beats)
    values = rows.columns(beats, "job", "epoch", "step", "steps", "stage") | holder._asdict() | {"term": term_seconds}
    beaten = transaction.execute(_BEAT.encode(), values).fetchall() if beats else []
    granted = transaction.execute(
        "SELECT l.job, l.epoch FROM leases l JOIN jobs j USING (job, epoch) "
        "WHERE l.worker = %(worker)s AND l.incarnation = %(incarnation)s AND j.state = 'granted' ORDER BY l.job",
        values,
    )
    return BeatAnswer(
        [Beaten(*row)._replace(outcome=BeatOutcome(row[2])) for row in beaten], [AttemptId(*row) for row in granted]
    )


_CHECKPOINT = """
    WITH held AS MATERIALIZED (
        SELECT j.job, g.checkpoint, j.state = 'running' AND g.checkpoint IS NOT NULL
            AND coalesce((j.checkpoint ->> 'step')::int <= (g.checkpoint ->> 'step')::int, true) AS newer
        FROM unnest(%(job)s::text[], %(epoch)s::bigint[], %(checkpoint)s::jsonb[]) AS g(job, epoch, checkpoint)
            JOIN jobs j USING (job, epoch) JOIN leases l USING (job, epoch)
        WHERE l.worker = %(worker)s AND l.incarnation = %(incarnation)s
        ORDER BY j.job FOR NO KEY UPDATE OF j
    )
    UPDATE jobs j SET checkpoint = held.checkpoint FROM held WHERE j.job = held.job AND held.newer
"""


def keep_checkpoints(transaction: Transaction, holder: Holder, beats: Sequence[Beat]) -> None:
    """``beats``: all that the transaction is about. Each job is locked, also those without a checkpoint: who holds any
    job may only want leases of jobs that it holds, and no job before the last one that it holds."""
    if any(one.checkpoint is not None for one in beats):
        transaction.execute(_CHECKPOINT.encode(), rows.columns(beats, "job", "epoch", "checkpoint") | holder._asdict())
