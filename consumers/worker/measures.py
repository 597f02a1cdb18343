"""What a worker counts of itself."""

from __future__ import annotations

from headwater.consumers.worker.asking import Report
from headwater.consumers.worker.attempts import Attempts, Phase
from headwater.observe import job_metrics
from headwater.schemas.worker_api import Beat, Completed, EndOutcome, Failed, Stopped

_OUTCOMES: dict[type[Report], str] = {
    Completed: "completed",
    Failed: "failed",
    Beat: "released",
    Stopped: "cancelled",
}
"""Of what the endpoint was told, where it took effect."""

_SHOWN_SECONDS = 1.0


def ended(told: type[Report], outcome: EndOutcome) -> None:
    """An attempt of this worker ended, or was found to be another's."""
    job_metrics.WORKER_ATTEMPTS.labels(_OUTCOMES[told] if outcome is EndOutcome.won else outcome.value).inc()


def lost() -> None:
    """An attempt was another's before anything was told."""
    job_metrics.WORKER_ATTEMPTS.labels(EndOutcome.lost.value).inc()


class Gauges:
    """Shown once a second. ``now``: any clock that goes on."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._due = 0.0
        job_metrics.WORKER_CRASHES.inc(0)

    def show(self, attempts: Attempts, *, ready: bool, silent_seconds: float, now: float) -> None:
        if now < self._due:
            return
        self._due = now + _SHOWN_SECONDS
        busy = attempts.occupied
        free = max(0, self._slots - busy)
        finishing = len(attempts.of_phase(Phase.finishing, Phase.ending))
        states = {"generating": busy, "free": free if ready else 0, "loading": 0 if ready else free}
        for state, slots in {**states, "finishing": finishing}.items():
            job_metrics.WORKER_SLOTS.labels(state).set(slots)
        job_metrics.WORKER_CUT_OFF_SECONDS.set(silent_seconds)
