"""What the endpoint counts: how workers' words were taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.connectors.jobs.leases import Claimed
from headwater.connectors.jobs.measured import Ended
from headwater.connectors.jobs.results import EndOutcome
from headwater.observe import job_metrics
from headwater.rules.jobs.states import JobState
from headwater.schemas.worker_api import BeatOutcome


def claimed(claimed: Sequence[Claimed], gone: int) -> None:
    job_metrics.JOB_CLAIMS.labels("claimed").inc(len(claimed))
    job_metrics.JOB_CLAIMS.labels("gone").inc(gone)
    for one in claimed:
        if one.waited_seconds is not None:
            job_metrics.JOB_WAIT_SECONDS.labels(one.pool).observe(one.waited_seconds)


def beaten(outcomes: Iterable[BeatOutcome]) -> None:
    for outcome in outcomes:
        job_metrics.JOB_BEATS.labels(outcome.value).inc()
        if outcome is BeatOutcome.lost:
            job_metrics.JOB_STALE_WRITES.labels("beat").inc()


def ended(verb: str, outcomes: Iterable[EndOutcome], attempts: Iterable[Ended]) -> None:
    """``attempts``: those that ended by it; ``outcomes``: what is answered, also of those that were refused."""
    for outcome in outcomes:
        if outcome is EndOutcome.lost:
            job_metrics.JOB_STALE_WRITES.labels(verb).inc()
    for one in attempts:
        if one.outcome == "completed":
            _completed(one)
        else:
            job_metrics.JOB_GPU_SECONDS.labels(one.pool, "lost").inc(one.gpu_seconds)
        if one.outcome == "failed":
            verdict = "ended" if one.state is JobState.failed else "retried"
            job_metrics.JOB_FAILURES.labels(one.pool, one.code or "", verdict).inc()


def _completed(one: Ended) -> None:
    job_metrics.JOB_COMPLETED.labels(one.pool).inc()
    job_metrics.JOB_RUN_SECONDS.labels(one.pool, one.model).observe(one.ran_seconds)
    job_metrics.JOB_ATTEMPTS.labels(one.pool).observe(one.epoch)
    job_metrics.JOB_GPU_SECONDS.labels(one.pool, "charged").inc(one.gpu_seconds)
    job_metrics.JOB_COST.labels(one.pool).inc(one.amount)
