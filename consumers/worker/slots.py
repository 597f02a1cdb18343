"""The hosts as places for batches: which are loading, free or at work, and when a dead one is started again.

A host runs one batch at a time, so that there are as many hosts as the worker has slots for batches. Belongs to the
supervisor's thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headwater.consumers.worker.hosts import HostDied, Hosts
from headwater.consumers.worker.messages import Attempt, Generate, Hello, HostWork, Loaded, LoadFailed, Stop
from headwater.observe import job_metrics, logs
from headwater.rules.jobs.capabilities import Capabilities

log = logs.logger()

_HELLO_SECONDS = 120.0
"""Importing a model's libraries takes seconds, from a cold disk a minute."""
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 0.2, 60.0


class Condition(StrEnum):
    loading = "loading"
    free = "free"
    busy = "busy"


@dataclass(slots=True)
class _Place:
    since: float
    condition: Condition = Condition.loading
    ordered: bool = False
    """We killed it."""


class Slots:
    """``capabilities`` is None until the first host said hello."""

    def __init__(self, hosts: Hosts, slots: int) -> None:
        self._hosts = hosts
        self._slots = slots
        self._places: dict[int, _Place] = {}
        self._failures = 0
        self._rest_until = 0.0
        self.capabilities: Capabilities | None = None
        self.trouble = ""

    @property
    def ready(self) -> bool:
        """Could something run now, or as soon as what runs is done?"""
        return any(place.condition is not Condition.loading for place in self._places.values())

    @property
    def wanted(self) -> int:
        """How many hosts there shall be."""
        return 1 if self.capabilities is None else -(-self._slots // self.capabilities.max_batch)

    def free(self) -> list[int]:
        return [number for number, place in self._places.items() if place.condition is Condition.free]

    def said(self, host: int, message: Hello | Loaded | LoadFailed) -> None:
        """Raises BadRecord where its capabilities are none."""
        match message:
            case Hello(capabilities):
                self.capabilities = Capabilities.from_json(capabilities)
            case Loaded(seconds):
                log.info("model.loaded", host=host, seconds=seconds)
                self._places[host].condition = Condition.free
                self._failures, self.trouble = 0, ""
            case LoadFailed(code, text):
                self.trouble = f"the model could not be loaded ({code}): {text}"
                log.error("model.not_loaded", host=host, code=code, error=text)

    def generate(self, host: int, works: Iterable[HostWork]) -> None:
        self._places[host].condition = Condition.busy
        self._hosts.send(host, Generate(tuple(works)))

    def stop(self, host: int, attempt: Attempt, *, checkpoint: bool) -> None:
        self._hosts.send(host, Stop((attempt,), checkpoint))

    def done(self, host: int) -> None:
        """All its works are answered."""
        if (place := self._places.get(host)) is not None and place.condition is Condition.busy:
            place.condition = Condition.free

    def kill(self, host: int) -> None:
        if (place := self._places.get(host)) is not None and not place.ordered:
            place.ordered = True
            self._hosts.kill(host)

    def died(self, event: HostDied, now: float) -> bool:
        """Whether it died of itself. One that never was loaded is followed by another only after a rest."""
        place = self._places.pop(event.host)
        job_metrics.WORKER_CRASHES.inc()
        log.warning("host.died", host=event.host, status=event.status, ordered=place.ordered, was=place.condition)
        if place.condition is Condition.loading:
            self._failures += 1
            rest = min(_FIRST_REST_SECONDS * 2**self._failures, _LONGEST_REST_SECONDS)
            self._rest_until = now + rest
            self.trouble = self.trouble or f"the model's process ended with status {event.status} before it was loaded"
        return not place.ordered

    def look(self, now: float) -> None:
        """Start what is missing, and kill what loads for too long."""
        limit = self.capabilities.load_limit_seconds if self.capabilities else _HELLO_SECONDS
        for number, place in self._places.items():
            if place.condition is Condition.loading and now - place.since > limit:
                self.trouble = self.trouble or f"the model was not loaded within {limit:g} s"
                self.kill(number)
        while len(self._places) < self.wanted and now >= self._rest_until:
            self._places[self._hosts.start()] = _Place(now)
