from __future__ import annotations

from pathlib import Path

from headwater.consumers.worker import measures
from headwater.consumers.worker.attempts import Attempts, Held, Phase
from headwater.consumers.worker.measures import Gauges
from headwater.observe import job_metrics
from headwater.schemas.worker_api import Beat, Claimed, ClaimOutcome, Completed, EndOutcome


def held(job: str, phase: Phase) -> Held:
    return Held(Claimed(job=job, epoch=1, outcome=ClaimOutcome.claimed), Path(), 0.0, phase)


def slots(gauges: Gauges, attempts: Attempts, now: float, *, ready: bool = True) -> dict[str, float]:
    gauges.show(attempts, ready=ready, silent_seconds=7.0, now=now)
    samples = next(iter(job_metrics.WORKER_SLOTS.collect())).samples
    return {sample.labels["state"]: sample.value for sample in samples}


def test_a_slot_is_busy_until_its_job_finishes_and_loading_until_the_model_is_there() -> None:
    attempts, gauges = Attempts(), Gauges(4)
    assert slots(gauges, attempts, 10.0, ready=False) == {"generating": 0, "free": 0, "loading": 4, "finishing": 0}
    for job, phase in (("a", Phase.generating), ("b", Phase.waiting), ("c", Phase.finishing)):
        attempts.add(held(job, phase))
    assert slots(gauges, attempts, 20.0) == {"generating": 2, "free": 2, "loading": 0, "finishing": 1}
    assert job_metrics.WORKER_CUT_OFF_SECONDS._value.get() == 7.0


def test_what_a_worker_told_counts_as_it_took_effect() -> None:
    def counted() -> dict[str, float]:
        samples = next(iter(job_metrics.WORKER_ATTEMPTS.collect())).samples
        return {one.labels["outcome"]: one.value for one in samples if one.name.endswith("_total")}

    before = counted()
    measures.ended(Completed, EndOutcome.won)
    measures.ended(Beat, EndOutcome.won)
    measures.ended(Completed, EndOutcome.cancelled)
    measures.ended(Completed, EndOutcome.lost)
    measures.lost()
    after = counted()
    grown = {outcome: after[outcome] - before.get(outcome, 0) for outcome in after}
    assert {outcome: times for outcome, times in grown.items() if times} == {
        "completed": 1, "released": 1, "cancelled": 1, "lost": 2,
    }  # fmt: skip
