"""What a member is doing, for health checks, metrics and people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import Lock

from headwater.observe import metrics

_LONG_WAIT_SECONDS = 5.0


class Phase(StrEnum):
    starting = "starting"
    running = "running"
    paused = "paused"
    """A step takes long: partitions are paused until it ends, the place in the group is kept."""
    degraded = "degraded"
    """Something that the group needs does not answer: it waits and tries again. Nothing is lost."""
    draining = "draining"
    stopped = "stopped"


@dataclass(frozen=True, slots=True)
class MemberState:
    """``reason`` says why, in a sentence, when the phase is degraded. ``since`` is a Unix time in seconds."""

    group: str
    transactional_id: str
    phase: Phase
    reason: str
    since: float
    partitions: tuple[tuple[str, int], ...]
    """Topic (the catalogue's name) and partition of each partition held."""


class StateBoard:
    """Where the consumer thread and the step thread write what they are doing. Safe for threads."""

    def __init__(self, group: str, clock: Callable[[], float]) -> None:
        self._group = group
        self._clock = clock
        self._lock = Lock()
        self._phase = Phase.starting
        self._troubles: dict[str, str] = {}
        self._waits: tuple[str, float] | None = None
        self._shown = Phase.starting
        self._since = clock()
        for phase in Phase:
            # Asked when it is scraped: a call that blocks updates nothing.
            metrics.GROUP_STATE.labels(group, phase).set_function(partial(self._is_in, phase))

    def enter(self, phase: Phase) -> None:
        with self._lock:
            if phase is not self._phase:
                self._phase = phase
                self._publish()

    def degrade(self, what: str, why: str) -> None:
        """``what`` does not answer: degraded until ``recover(what)``."""
        with self._lock:
            self._troubles[what] = why
            self._publish()

    def recover(self, what: str) -> None:
        with self._lock:
            if self._troubles.pop(what, None) is not None:
                self._publish()

    @contextmanager
    def waiting_for(self, whom: str) -> Iterator[None]:
        """A call inside may block for longer than it was told to: a reader of the state should know meanwhile."""
        self._waits = (whom, self._clock())
        try:
            yield
        finally:
            self._waits = None

    def is_degraded(self, what: str) -> bool:
        return what in self._troubles

    def read(self, transactional_id: str, partitions: tuple[tuple[str, int], ...]) -> MemberState:
        waits = self._waits
        if waits is not None and self._clock() - waits[1] > _LONG_WAIT_SECONDS:
            reason = f"{waits[0]} has not answered for {self._clock() - waits[1]:.0f} s."
            return MemberState(self._group, transactional_id, Phase.degraded, reason, waits[1], partitions)
        with self._lock:
            reason = " ".join(self._troubles.values())
            return MemberState(self._group, transactional_id, self._shown, reason, self._since, partitions)

    def _publish(self) -> None:
        works = self._phase in (Phase.starting, Phase.running, Phase.paused)
        shown = Phase.degraded if self._troubles and works else self._phase
        if shown is not self._shown:
            self._shown, self._since = shown, self._clock()

    def _is_in(self, phase: Phase) -> bool:
        return self.read("", ()).phase is phase
