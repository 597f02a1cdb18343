"""What the endpoint counts: how workers' words were taken."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.connectors.jobs.results import EndOutcome
from headwater.observe import job_metrics
from headwater.schemas.worker_api import BeatOutcome


def claimed(claimed: int, gone: int) -> None:
    job_metrics.JOB_CLAIMS.labels("claimed").inc(claimed)
    job_metrics.JOB_CLAIMS.labels("gone").inc(gone)


def beaten(outcomes: Iterable[BeatOutcome]) -> None:
    for outcome in outcomes:
        job_metrics.JOB_BEATS.labels(outcome.value).inc()
        if outcome is BeatOutcome.lost:
            job_metrics.JOB_STALE_WRITES.labels("beat").inc()


def ended(verb: str, outcomes: Iterable[EndOutcome]) -> None:
    for outcome in outcomes:
        if outcome is EndOutcome.lost:
            job_metrics.JOB_STALE_WRITES.labels(verb).inc()
