"""The sender of webhooks.

reads   deliveries (with jobs and tenants), in the catalog
writes  their attempts, and what an endpoint's 410 disables
effect  each tenant's endpoint is told how its jobs ended: at least once, always under the same id
safe    because receivers know by the id what they have seen, and because a failure is noted by who has the row only

A delivery's way:
1. it is taken: the row is ours for longer than an attempt lasts. A crash leaves it to whoever looks after that;
2. it is posted. A crash now, or an answer that is lost, and it is posted again: same id, same body, new timestamp;
3. its outcome is noted, with the moment of the next attempt where there is one.
Nothing keeps an order, of one job even less: a job ends once, so that it has one webhook.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from random import Random
from threading import Event

from headwater.connectors.jobs import deliveries, reading
from headwater.connectors.jobs.database import JobsDatabase, Transaction
from headwater.connectors.jobs.deliveries import Delivery, Outcome
from headwater.connectors.web.client import Web
from headwater.consumers.webhooks.attempt import attempt
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.consumers.webhooks.endpoints import Endpoints
from headwater.observe import job_metrics, logs
from headwater.observe.http import Health
from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.video import JobView
from headwater.rules.jobs.webhooks import Verdict

log = logs.logger()

_SEEN = 500
"""Due rows looked at in one pass: of one busy endpoint, and the next pass leaves that one out."""
_POSTPONED = 2_000
"""Rows of a resting endpoint that one pass moves."""
_GATHER_SECONDS = 0.02
"""Outcomes of so long are noted together: at most fifty passes a second."""
_HOLD_MARGIN_SECONDS = 60.0
"""A name may take half a minute to be looked up, before the clock of the attempt starts."""
_MEASURE_SECONDS = 5.0
_GIVEN_UP = "given_up"
"""In metrics: a delivery that failed for good."""
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 0.2, 15.0


class Webhooks:
    """``run`` it in one thread; ``stop`` and ``health`` are safe from any."""

    def __init__(self, database: JobsDatabase, web: Web, config: WebhooksConfig) -> None:
        self._database = database
        self._web = web
        self._config = config
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._hold_seconds = web.config.answer_seconds + _HOLD_MARGIN_SECONDS
        self._random = Random()
        self._endpoints = Endpoints(config, self._random)
        self._arrived: SimpleQueue[Outcome] = SimpleQueue()
        self._to_note: list[Outcome] = []
        self._to_postpone: set[str] = set()
        self._stopping = Event()
        self._trouble = ""
        self._failures = 0
        self._measure_at = 0.0
        for outcome in (*Verdict, _GIVEN_UP):
            job_metrics.WEBHOOK_ATTEMPTS.labels(str(outcome))  # alerts need to see them at 0

    def health(self) -> Health:
        state = "stopping" if self._stopping.is_set() else "degraded" if self._trouble else "running"
        facts = {"under_way": self._endpoints.under_way}
        return Health(not self._trouble, state, self._trouble, facts)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Send until ``stop``, then wait for what is under way. Outages of the catalog are waited for."""
        with ThreadPoolExecutor(self._config.threads, "webhook") as threads:
            self._pass(threads)
            while not self._stopping.is_set():
                self._hear(self._config.look_seconds)
                self._pass(threads)
            self._drain()

    def _pass(self, threads: ThreadPoolExecutor) -> bool:
        """Note what ended, then take and send what is due, for as long as there is more. False: the catalog is away."""
        more = True
        while more:
            try:
                taken, more = self._exchange()
            except HeadwaterError as error:
                self._wait_after(error)
                return False
            self._recovered()
            for delivery, job in taken:
                threads.submit(self._attempt, delivery, job)
        return True

    def _exchange(self) -> tuple[list[tuple[Delivery, JobView]], bool]:
        """One transaction: outcomes in, deliveries out; and whether there may be more of them."""
        now = time.monotonic()
        free = 0 if self._stopping.is_set() else self._config.threads - self._endpoints.under_way
        full, full_tenants = self._endpoints.full(now), self._endpoints.full_tenants()
        with self._database.quiet() as transaction:
            deliveries.note(transaction, self._name, self._to_note)
            given_up = self._postpone(transaction, now)
            taken: list[Delivery] = []
            seen = 0
            if free:
                due = deliveries.due(transaction, full_endpoints=full, full_tenants=full_tenants, limit=_SEEN)
                seen = len(due)
                chosen = self._endpoints.choose(due, now)
                taken = deliveries.take(transaction, self._name, chosen, self._hold_seconds)
            views: Mapping[str, JobView] = {}
            if taken:
                views = {view.job: view for view in reading.present(transaction, [one.job for one in taken])}
            if now >= self._measure_at:
                self._measure_at = now + _MEASURE_SECONDS
                oldest = deliveries.oldest_due_seconds(transaction, full_endpoints=list(self._endpoints.resting(now)))
                job_metrics.WEBHOOK_AGE_SECONDS.set(oldest)
        self._to_note = []
        job_metrics.WEBHOOK_ATTEMPTS.labels(_GIVEN_UP).inc(given_up)
        for delivery in taken:
            self._endpoints.started(delivery)
        self._show(now)
        return [(one, views[one.job]) for one in taken], bool(taken) and seen == _SEEN

    def _postpone(self, transaction: Transaction, now: float) -> int:
        """What waits for endpoints that rest is due when they have; how much of it has waited too long."""
        given_up = 0
        for endpoint, seconds in self._endpoints.resting(now).items():
            if endpoint in self._to_postpone:
                moved, old = deliveries.postpone(transaction, endpoint, seconds, limit=_POSTPONED)
                given_up += old
                if moved < _POSTPONED:
                    self._to_postpone.discard(endpoint)
        return given_up

    def _attempt(self, delivery: Delivery, job: JobView) -> None:
        """In a thread of its own."""
        outcome = attempt(self._web, delivery, job, self._random)
        if outcome.verdict is Verdict.delivered and job.completed_at is not None:
            job_metrics.WEBHOOK_DELAY_SECONDS.observe(max(0.0, time.time() - job.completed_at.timestamp()))
        self._arrived.put(outcome)

    def _hear(self, seconds: float) -> None:
        """Wait for an outcome, then gather those that come with it."""
        try:
            first = self._arrived.get(timeout=seconds)
        except Empty:
            return
        self._stopping.wait(_GATHER_SECONDS)
        outcomes = [first]
        with suppress(Empty):
            while True:
                outcomes.append(self._arrived.get_nowait())
        for outcome in outcomes:
            self._judge(outcome)
        self._to_note += outcomes

    def _judge(self, outcome: Outcome) -> None:
        """What the outcome says of its endpoint."""
        delivery = outcome.delivery
        self._endpoints.ended(delivery)
        if outcome.verdict is Verdict.delivered:
            self._endpoints.succeeded(delivery.endpoint)
        elif outcome.verdict is Verdict.failed:
            rest = self._endpoints.failed(delivery.endpoint, time.monotonic())
            if rest is not None:
                self._to_postpone.add(delivery.endpoint)
                log.warning("webhook.resting", endpoint=delivery.endpoint, seconds=round(rest), error=outcome.error)
        gave_up = outcome.verdict is Verdict.failed and outcome.wait_seconds is None
        job_metrics.WEBHOOK_ATTEMPTS.labels(_GIVEN_UP if gave_up else outcome.verdict.value).inc()

    def _drain(self) -> None:
        """What is under way may still end, and is noted."""
        until = time.monotonic() + self._config.drain_seconds
        while (self._endpoints.under_way or self._to_note) and time.monotonic() < until:
            self._hear(0.1)
            try:
                self._exchange()
            except HeadwaterError as error:
                log.warning("webhooks.not_noted", error=str(error))
                time.sleep(0.2)

    def _show(self, now: float) -> None:
        job_metrics.WEBHOOK_BUSY.set(self._endpoints.under_way)
        job_metrics.WEBHOOK_RESTING.set(len(self._endpoints.resting(now)))

    def _wait_after(self, error: HeadwaterError) -> None:
        self._trouble = str(error)
        log.warning("webhooks.waiting", error=str(error))
        most = min(_RETRY_MOST_SECONDS, _RETRY_BASE_SECONDS * 2.0 ** min(self._failures, 32))
        self._failures += 1
        self._stopping.wait(self._random.uniform(0.0, most))

    def _recovered(self) -> None:
        self._trouble = ""
        self._failures = 0
