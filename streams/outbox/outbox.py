"""The relay of the outbox: each change of a job's state goes to the log.

reads   the table outbox, woken by whoever commits a change, and four times a second by itself
writes  jobs.events: every change; jobs.requested: the jobs that wait
effect  schedulers, the HTTP service and histories hear of what the database decided, a few milliseconds later
safe    because rows are deleted after the log acknowledged them: a crash repeats some, and readers keep the highest
        version of a job. Several relays share the rows (SKIP LOCKED); of one that died or hangs, the others take
        over what it had after ten seconds, and what it had not at once
"""

from __future__ import annotations

import time
from contextlib import closing
from random import Random
from threading import Event

from headwater.connectors.jobs import outbox
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import job_metrics, logs, metrics
from headwater.rules.errors import HeadwaterError, Refused, Transient
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED
from headwater.streams.outbox.relay import ROUND_ROWS, Relay
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.state import MemberState, Phase, StateBoard

log = logs.logger()

GROUP = "outbox"
LOOK_SECONDS = 0.25
"""A change whose committer could not wake us waits so long at most."""
_GATHER_SECONDS = 0.01
"""From one round's begin to the next, at least: under load rows gather, and a round costs the same for one or fifty."""
_DEPTH_SECONDS = 5.0
_SERVERS = "servers"
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 0.1, 5.0


class Outbox:
    """``run`` it in one thread; ``stop`` and ``state`` are safe from any."""

    def __init__(self, database: JobsDatabase, kafka: Kafka) -> None:
        self._database = database
        self._kafka = kafka
        self._board = StateBoard(GROUP, time.time)
        self._stopping = Event()
        self._random = Random()
        self._failures = 0
        self._depth_due = 0.0
        self._records = metrics.GROUP_RECORDS.labels(GROUP)

    def state(self) -> MemberState:
        return self._board.read("", ())

    def stop(self) -> None:
        """What is taken is told, and deleted, before ``run`` returns."""
        self._stopping.set()

    def run(self) -> None:
        """Serve until ``stop``. Outages are waited for; raises TopicMismatch or BadSettings for what a person must
        mend, and at the start also Unavailable or Refused, where the cluster was never seen."""
        verify_topics(self._kafka, (JOBS_EVENTS, JOBS_REQUESTED))
        while not self._stopping.is_set():
            try:
                with closing(self._database.bell()) as bell, closing(Relay(self._database, self._kafka)) as relay:
                    self._board.enter(Phase.running)
                    while not self._stopping.is_set():
                        begun = time.monotonic()
                        if self._pass(relay) < ROUND_ROWS:
                            bell.wait(LOOK_SECONDS)
                            self._stopping.wait(max(0.0, begun + _GATHER_SECONDS - time.monotonic()))
                    relay.settle()
            except (Transient, Refused) as error:
                self._start_over_after(error)
        self._board.enter(Phase.stopped)

    def _pass(self, relay: Relay) -> int:
        """One round; how many rows it told."""
        told = relay.round()
        self._records.inc(told)
        self._failures = 0
        self._board.recover(_SERVERS)
        self._show_depth()
        return told

    def _show_depth(self) -> None:
        if time.monotonic() < self._depth_due:
            return
        self._depth_due = time.monotonic() + _DEPTH_SECONDS
        with self._database.quiet() as transaction:
            depth, age_seconds = outbox.depth(transaction)
        job_metrics.OUTBOX_ROWS.set(depth)
        job_metrics.OUTBOX_AGE_SECONDS.set(age_seconds)

    def _start_over_after(self, error: HeadwaterError) -> None:
        self._board.degrade(_SERVERS, f"Changes of jobs wait in the outbox: {error}")
        log.warning("outbox.starting_over", error=str(error))
        pause = full_jitter(
            self._failures, base_seconds=_RETRY_BASE_SECONDS, most_seconds=_RETRY_MOST_SECONDS, random=self._random
        )
        self._failures += 1
        self._stopping.wait(pause)
