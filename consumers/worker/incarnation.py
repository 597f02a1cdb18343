"""One life of a worker: from its registration until it has drained, or finds that it stood still.

The supervisor's thread runs ``run``: one short loop that takes what happened, begins what can begin, and looks at the
clock. It alone decides, and waits for nothing else: hosts, beats, claims, reports, files and the log have threads of
their own, which put what happened into its queue.
"""

from __future__ import annotations

import queue
import socket
from contextlib import ExitStack
from enum import StrEnum
from threading import Event
from typing import Any

from headwater.connectors.api.endpoint import Endpoint
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.models.described import Described
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.client import Web
from headwater.consumers.worker.asking import Asking, AskingFailed, ClaimsAnswered, EndsAnswered, Report
from headwater.consumers.worker.attempts import Attempts, Ending, Phase
from headwater.consumers.worker.beats import BeatAnswered, BeatFailed, Pulse, StoodStill, now
from headwater.consumers.worker.config import WorkerConfig
from headwater.consumers.worker.files import CheckpointKept, Files, Finished, Prepared
from headwater.consumers.worker.grants import Grants, GrantsHeard
from headwater.consumers.worker.hosts import HostDied, Hosts, HostSaid
from headwater.consumers.worker.jobs import Jobs
from headwater.consumers.worker.measures import Gauges
from headwater.consumers.worker.messages import Attempt, Checkpoint, Hello, Loaded, LoadFailed, Results, Steps
from headwater.consumers.worker.slots import Slots
from headwater.observe import logs
from headwater.rules.errors import Transient
from headwater.schemas.worker_api import Beat, BeatOutcome, OfferedModel, Registered, Registration

log = logs.logger()

_LOOK_SECONDS = 0.1
_REGISTER_SECONDS = 1.0

_STOPS = {BeatOutcome.stalled: Ending.hung, BeatOutcome.cancel: Ending.cancelled, BeatOutcome.lost: Ending.lost}


class End(StrEnum):
    """Why it was over."""

    drained = "drained"
    stood_still = "it stood still for longer than its lease"
    unknown = "the endpoint does not know it"


class Incarnation:
    """``number``: greater than that of every life before. ``ending`` is set when the worker shall drain."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        name: str,
        number: int,
        pool: str,
        model: Described,
        endpoint: Endpoint,
        kafka: Kafka,
        store: ObjectStore,
        web: Web,
        ending: Event,
    ) -> None:
        self._config, self._endpoint, self._kafka = config, endpoint, kafka
        self._name, self._number, self._pool, self._model = name, number, pool, model.name
        self._ending = ending
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._attempts = Attempts()
        self._hosts = Hosts({"model": model.backend, "options": dict(model.options)}, self._queue.put)
        self._slots = Slots(self._hosts, config.slots)
        self._jobs = Jobs(config, config.work_folder / name / str(number), self._attempts, self._slots)
        self._files = Files(
            store, web, finishing=config.finishing, tell=self._queue.put, wanted=self._attempts.__contains__
        )
        self._asked: dict[Attempt, float] = {}
        self._heard_at = now()
        self._drain_by: float | None = None
        self._end: End | None = None
        self._cut_off = ""
        self._grants: Grants | None = None
        self._gauges = Gauges(config.slots)

    def run(self) -> End:
        """Raises Fenced where a newer incarnation lives, Refused where the endpoint does not know the key, BadRecord
        where the model's capabilities are none."""
        with ExitStack() as parts:
            parts.callback(self._files.close)
            parts.callback(self._hosts.close)
            registered = self._register()
            if registered is None:
                return End.drained
            self._connect(registered, parts)
            while self._end is None:
                for event in self._events(self._begin()):
                    self._take(event)
                self._look()
            return self._end

    @property
    def ready(self) -> bool:
        return self._slots.ready

    @property
    def trouble(self) -> str:
        """What a person should know; empty where all is well."""
        return self._cut_off or self._slots.trouble or (self._grants.trouble if self._grants else "")

    @property
    def facts(self) -> dict[str, object]:
        return {"worker": self._name, "pool": self._pool, "jobs": len(self._attempts), "draining": self._jobs.draining}

    def _register(self) -> Registered | None:
        """As soon as a host said what its model can; None: it is to end before."""
        while not self._ending.is_set():
            self._tend_hosts(now())
            for event in self._events(_LOOK_SECONDS):
                self._take(event)
            if self._slots.capabilities is None:
                continue
            request = Registration(
                worker=self._name,
                incarnation=self._number,
                pool=self._pool,
                slots=self._config.slots,
                host=socket.gethostname(),
                models=(OfferedModel(model=self._model, capabilities=self._slots.capabilities.to_json()),),
            )
            try:
                return self._endpoint.register(request)
            except Transient as error:
                self._cut_off = str(error)
                log.warning("worker.not_registered", error=str(error))
                self._ending.wait(_REGISTER_SECONDS)
        return None

    def _connect(self, registered: Registered, parts: ExitStack) -> None:
        log.info("worker.registered", worker=self._name, incarnation=self._number, lease=registered.lease_seconds)
        self._cut_off = ""
        self._lease_seconds, self._heard_at = registered.lease_seconds, now()
        self._pulse = parts.enter_context(
            Pulse(
                self._endpoint,
                self._name,
                self._number,
                lease_seconds=registered.lease_seconds,
                beat_seconds=registered.beat_seconds,
                beats=self._attempts.beats,
                draining=lambda: self._ending.is_set() or not self._slots.ready,
                tell=self._queue.put,
            )
        )
        asking = Asking(
            self._endpoint,
            self._name,
            self._number,
            claimable=self._claimable,
            wanted=self._wanted,
            tell=self._queue.put,
        )
        self._jobs.connect(asking, self._files)
        self._asking = parts.enter_context(asking)
        self._grants = parts.enter_context(
            Grants(self._kafka, registered.partition, self._name, self._number, self._queue.put)
        )

    # The loop's steps

    def _events(self, patience: float) -> list[Any]:
        """All that wait; or the first that comes within so long."""
        events = []
        try:
            events.append(self._queue.get(timeout=patience))
            while True:
                events.append(self._queue.get_nowait())
        except queue.Empty:
            return events

    def _begin(self) -> float:
        at = now()
        self._jobs.finish(at)
        patience = self._jobs.begin(at)
        return _LOOK_SECONDS if patience is None else min(patience, _LOOK_SECONDS)

    def _take(self, event: Any) -> None:
        match event:
            case GrantsHeard(granted, cancel):
                self._hear(granted)
                for attempt in cancel:
                    self._stop(attempt, Ending.cancelled)
            case ClaimsAnswered(claims):
                for claim in claims:
                    self._jobs.claimed(claim, now())
            case Prepared():
                self._jobs.prepared(event)
            case HostSaid(_, Steps() as steps):
                self._jobs.stepped(steps)
            case HostSaid(_, Checkpoint() as checkpoint):
                self._jobs.checkpointed(checkpoint)
            case HostSaid(host, Results() as results):
                self._jobs.resulted(host, results)
            case HostSaid(host, Hello() | Loaded() | LoadFailed() as message):
                self._slots.said(host, message)
            case HostDied(host):
                self._jobs.host_died(host, now(), of_itself=self._slots.died(event, now()))
            case CheckpointKept():
                self._jobs.kept(event)
            case Finished():
                self._jobs.finished(event)
            case EndsAnswered():
                self._jobs.ended(event)
            case BeatAnswered():
                self._beaten(event)
            case BeatFailed(error) | AskingFailed(error):
                self._refused(error)
            case StoodStill():
                self._end = End.stood_still

    def _look(self) -> None:
        at = now()
        self._tend_hosts(at)
        self._jobs.kill_overdue(at)
        self._jobs.conclude_overdue(at)
        if self._jobs.long_finishing(at):
            self._pulse.soon()
        if at - self._heard_at > self._config.cut_off_terms * self._lease_seconds:
            for held in self._attempts:
                self._jobs.stop(held, Ending.lost, at)
        if self._ending.is_set():
            self._drain(at)

    def _tend_hosts(self, at: float) -> None:
        self._slots.look(at)
        self._gauges.show(self._attempts, ready=self._slots.ready, silent_seconds=at - self._heard_at, now=at)

    def _hear(self, granted: tuple[Attempt, ...]) -> None:
        """A grant is heard of from the log and from beats: it is claimed once, and again only where that got lost."""
        for attempt in granted:
            if self._jobs.draining:
                self._jobs.give_back(attempt)
            elif now() - self._asked.get(attempt, 0.0) > self._lease_seconds:
                self._asked[attempt] = now()
                self._asking.claim(attempt)

    def _claimable(self, attempt: Attempt) -> bool:
        return now() - self._asked.get(attempt, 0.0) < self._lease_seconds and not self._pulse.stood_still()

    def _wanted(self, report: Report) -> bool:
        """What is given back unclaimed is no attempt of ours."""
        ours = (report.job, report.epoch) in self._attempts or isinstance(report, Beat)
        return ours and not self._pulse.stood_still()

    def _beaten(self, event: BeatAnswered) -> None:
        self._heard_at, self._cut_off = event.sent_at, ""
        if event.answer.unknown_worker:
            self._end = End.unknown
            return
        told = {(beat.job, beat.epoch): beat.checkpoint for beat in event.told}
        for answer in event.answer.beats:
            attempt = (answer.job, answer.epoch)
            if (ending := _STOPS.get(answer.outcome)) is not None:
                self._stop(attempt, ending)
            elif (held := self._attempts.get(attempt)) is not None:
                held.told_checkpoint = told.get(attempt) or held.told_checkpoint
        self._hear(tuple((one.job, one.epoch) for one in event.answer.granted))
        old = now() - 2 * self._lease_seconds
        self._asked = {attempt: at for attempt, at in self._asked.items() if at > old}

    def _stop(self, attempt: Attempt, ending: Ending) -> None:
        if (held := self._attempts.get(attempt)) is not None:
            self._jobs.stop(held, ending, now())

    def _refused(self, error: Exception) -> None:
        if not isinstance(error, Transient):
            raise error
        self._cut_off = str(error)

    def _drain(self, at: float) -> None:
        """1. Tell, and give back what has not begun. 2. Let the rest finish. 3. When the time is over, stop it at its
        next checkpoint and give it back. 4. End when nothing is left, or nobody hears it."""
        if self._drain_by is None:
            log.info("worker.drains", jobs=len(self._attempts), seconds=self._config.drain_seconds)
            self._jobs.draining = True
            self._drain_by = at + self._config.drain_seconds
            self._pulse.soon()
            for held in self._attempts.of_phase(Phase.preparing, Phase.waiting):
                self._jobs.stop(held, Ending.released, at)
        if at > self._drain_by:
            for held in self._attempts:
                self._jobs.stop(held, Ending.released, at)
        if not len(self._attempts) or at > self._drain_by + 2 * self._config.stop_seconds:
            self._end = End.drained
