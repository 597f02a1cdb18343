"""The beats: a thread that says every third of a lease that this worker lives, and how far each of its jobs is.

Nothing blocks it but the endpoint, and that for less than a beat. It also is the worker's watch: it looks at the clock
many times a lease, and where it finds that a whole lease passed between two looks, the worker stood still (SIGSTOP, a
suspended machine) and what it held may be another's by now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from headwater.connectors.api.endpoint import Endpoint
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError
from headwater.schemas.worker_api import Beat, BeatRequest, Beats

log = logs.logger()

_STEPS_SECONDS = 1.0
"""Owners watch the progress: where a step moved, a beat is not later than this."""
_LOOKS_A_LEASE = 20


def now() -> float:
    """Seconds that go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class BeatAnswered:
    """``sent_at``: from when on the leases run anew, by ``now``. ``told``: what was said."""

    sent_at: float
    told: tuple[Beat, ...]
    answer: Beats


@dataclass(frozen=True, slots=True)
class BeatFailed:
    error: HeadwaterError


@dataclass(frozen=True, slots=True)
class StoodStill:
    seconds: float


class Pulse:
    """Beats while its block runs. ``beats`` and ``draining`` are asked, ``tell`` is called, in its thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        worker: str,
        incarnation: int,
        *,
        lease_seconds: float,
        beat_seconds: float,
        beats: Callable[[], tuple[Beat, ...]],
        draining: Callable[[], bool],
        tell: Callable[[BeatAnswered | BeatFailed | StoodStill], None],
    ) -> None:
        self._endpoint = endpoint
        self._worker, self._incarnation = worker, incarnation
        self._lease_seconds, self._beat_seconds = lease_seconds, beat_seconds
        self._beats, self._draining, self._tell = beats, draining, tell
        self._looked_at = now()
        self._stood = False
        self._soon = Event()
        self._ending = False
        self._thread = Thread(target=self._run, name="beats", daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._soon.set()

    def soon(self) -> None:
        """Something happened that the others should hear of now."""
        self._soon.set()

    def stood_still(self) -> bool:
        """Did a whole lease pass unseen? From any thread, before anything is told in this incarnation's name."""
        if now() - self._looked_at > self._lease_seconds:
            self._stood = True
        return self._stood

    def _run(self) -> None:
        told: tuple[tuple[Beat, ...], bool] = ((), True)
        beaten_at = 0.0
        while not self._ending:
            if self._look():
                return
            news = self._beats(), self._draining()
            waited = now() - beaten_at
            turned = news[1] != told[1]  # it takes jobs from now on, or no more: whoever grants waits for that
            if (
                waited >= self._beat_seconds
                or self._soon.is_set()
                or turned
                or (waited >= _STEPS_SECONDS and news != told)
            ):
                self._soon.clear()
                beaten_at, told = now(), news
                self._beat(*news)
            self._soon.wait(self._lease_seconds / _LOOKS_A_LEASE)

    def _look(self) -> bool:
        """A last word where it stood still."""
        before = self._looked_at
        if self.stood_still():
            log.warning("worker.stood_still", seconds=now() - before)
            self._tell(StoodStill(now() - before))
            return True
        self._looked_at = now()
        return False

    def _beat(self, beats: tuple[Beat, ...], draining: bool) -> None:
        request = BeatRequest(worker=self._worker, incarnation=self._incarnation, draining=draining, beats=beats)
        sent_at = now()
        try:
            answer = self._endpoint.beat(request, within_seconds=self._beat_seconds)
        except HeadwaterError as error:
            self._tell(BeatFailed(error))
        else:
            self._tell(BeatAnswered(sent_at, beats, answer))
