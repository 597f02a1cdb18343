"""The scheduler: gives waiting jobs to workers with a free slot, in fair order, within milliseconds.

reads   jobs.requested and jobs.events as the group ``dispatch``; in the catalog what waits, workers, leases, limits
writes  in the catalog grants (queued -> granted) and ``pools.board``; jobs.grants
effect  each waiting job is granted as soon as its turn has come and a slot is free
safe    because the catalog is the queue: a grant compares and sets the job under the pool's ``owner_epoch``, which each
        takeover raises. Records only tell sooner what the catalog says anyway; a scheduler that was paused while
        another took over is refused by its first write
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from random import Random
from threading import Event

from confluent_kafka import Message

from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import logs, metrics
from headwater.rules.errors import BadRecord, Fenced, HeadwaterError, Refused, Transient
from headwater.rules.jobs.waiting import WaitingJob, whole_seconds
from headwater.schemas.codec import decode
from headwater.schemas.job_records import GrantKind, JobEvent, JobRequested
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS, JOBS_REQUESTED
from headwater.streams.dispatch.boards import Boards
from headwater.streams.dispatch.granting import Granting
from headwater.streams.dispatch.group import GROUP, PoolGroup
from headwater.streams.dispatch.looking import Looking
from headwater.streams.dispatch.pool import Pool
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.state import MemberState, Phase, StateBoard

log = logs.logger()

_READ_SECONDS = 0.1
_LOOK_SECONDS = 1.0
"""How often the catalog is asked for workers, leases and limits, and told the board."""
_PATIENCE_SECONDS = 10.0
"""Who was fenced leaves the pool alone for longer than it takes to hear that the partition is another's: the session's
6 s. Else two would take it from each other in turn."""
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 0.2, 5.0
_KAFKA, _CATALOG = "kafka", "catalog"


class Dispatch:
    """``run`` it in one thread; ``stop`` and ``state`` are safe from any."""

    def __init__(self, database: JobsDatabase, kafka: Kafka) -> None:
        self._database = database
        self._kafka = kafka
        self._board = StateBoard(GROUP, time.time)
        self._stopping = Event()
        self._random = Random()
        self._places: tuple[tuple[str, int], ...] = ()
        self._pools: dict[str, Pool] = {}
        self._fenced_until: dict[str, float] = {}
        self._assignment = 0
        self._failures = 0
        self._look_at = 0.0
        metrics.GROUP_RECORDS.labels(GROUP)

    def state(self) -> MemberState:
        return self._board.read("", self._places)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Serve until ``stop``. Outages are waited for; raises TopicMismatch or BadSettings for what a person must
        mend, and at the start also Unavailable or Refused, where the cluster was never seen."""
        verify_topics(self._kafka, (JOBS_REQUESTED, JOBS_EVENTS, JOBS_GRANTS))
        while not self._stopping.is_set():
            try:
                with (
                    closing(PoolGroup(self._kafka)) as group,
                    closing(Granting(self._kafka, self._database)) as granting,
                    closing(Boards()) as boards,
                ):
                    self._serve(group, granting, Looking(self._database, _owner()), boards)
            except (Transient, Refused, Fenced) as error:
                self._start_over_after(error)
        self._board.enter(Phase.stopped)

    def _serve(self, group: PoolGroup, granting: Granting, looking: Looking, boards: Boards) -> None:
        """The main loop."""
        self._board.enter(Phase.running)
        self._forget_pools()
        while not self._stopping.is_set():
            messages = group.read(_READ_SECONDS)
            if group.assignment != self._assignment:
                self._forget_pools()
                self._assignment, self._places, self._look_at = group.assignment, group.places, 0.0
            for message in messages:
                self._hear(message, granting)
            try:
                with self._board.waiting_for("The database of jobs"):
                    if time.monotonic() >= self._look_at:
                        self._look_at = time.monotonic() + _LOOK_SECONDS
                        self._look(group, looking, boards)
                    self._grant(granting)
            except (Transient, Refused) as error:
                self._wait_for_catalog(error)
        self._board.enter(Phase.draining)

    def _hear(self, message: Message, granting: Granting) -> None:
        """A record of a pool that is not here, or not yet, says what its scheduler will read in the catalog."""
        try:
            record = decode(message.value())
        except BadRecord as error:
            log.warning("dispatch.unreadable", topic=message.topic(), offset=message.offset(), error=str(error))
            return
        metrics.GROUP_RECORDS.labels(GROUP).inc()
        now_us = time.time_ns() // 1_000
        if isinstance(record, JobRequested) and (pool := self._pools.get(record.pool)) is not None:
            pool.requested(_waiting_job(record), now_us)
        elif isinstance(record, JobEvent) and (pool := self._pools.get(record.pool)) is not None:
            stopped = pool.heard(record, now_us)
            if stopped is not None:
                granting.tell(pool, GrantKind.cancel, [stopped])

    def _look(self, group: PoolGroup, looking: Looking, boards: Boards) -> None:
        names = looking.pools(sorted(group.held))
        for name in self._pools.keys() - names:
            self._let_go(name)
        silent = self._kafka.silent_since() is not None and not group.broker_answers()
        for name in names:
            if time.monotonic() < self._fenced_until.get(name, 0.0):
                continue
            try:
                self._look_at_pool(name, looking, boards)
            except Fenced as fenced:
                self._let_go(name, fenced)
        boards.show_only(self._pools)
        self._judge(silent=silent)
        group.commit()
        group.show_lag(time.time())

    def _look_at_pool(self, name: str, looking: Looking, boards: Boards) -> None:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = looking.take_over(name)
        else:
            looking.look(pool)
        looking.publish(pool, boards.board(pool, time.time_ns() // 1_000))

    def _grant(self, granting: Granting) -> None:
        for pool in list(self._pools.values()):
            try:
                granting.grant(pool)
            except Fenced as fenced:
                self._let_go(pool.name, fenced)

    def _let_go(self, name: str, fenced: Fenced | None = None) -> None:
        """The pool is another's now, or is no more."""
        self._pools.pop(name, None)
        if fenced is not None:
            self._fenced_until[name] = time.monotonic() + _PATIENCE_SECONDS
            log.warning("dispatch.fenced", pool=name, error=str(fenced))

    def _forget_pools(self) -> None:
        self._pools, self._fenced_until = {}, {}

    def _judge(self, *, silent: bool) -> None:
        self._failures = 0
        self._board.recover(_CATALOG)
        if silent:
            where = self._kafka.config.bootstrap_servers
            why = f"Kafka at {where} does not answer: new jobs are found in the catalog, once a second."
            self._board.degrade(_KAFKA, why)
        else:
            self._kafka.answered()
            self._board.recover(_KAFKA)

    def _wait_for_catalog(self, error: HeadwaterError) -> None:
        """What became of the last grants is not known: all pools are taken over anew when it is back."""
        self._forget_pools()
        self._board.degrade(_CATALOG, str(error))
        self._look_at = time.monotonic() + self._pause()
        log.warning("dispatch.catalog_away", error=str(error))

    def _start_over_after(self, error: HeadwaterError) -> None:
        self._forget_pools()
        self._board.degrade(_KAFKA, str(error))
        log.warning("dispatch.starting_over", error=str(error))
        self._stopping.wait(self._pause())

    def _pause(self) -> float:
        self._failures += 1
        return full_jitter(
            self._failures - 1, base_seconds=_RETRY_BASE_SECONDS, most_seconds=_RETRY_MOST_SECONDS, random=self._random
        )


def _owner() -> str:
    """Who has a pool, for people: the process's host and number."""
    return f"{socket.gethostname()} {os.getpid()}"


def _waiting_job(record: JobRequested) -> WaitingJob:
    return WaitingJob(
        record.job,
        record.version,
        record.epoch,
        record.tenant,
        record.model,
        record.size,
        whole_seconds(record.seconds),
        record.priority,
        record.cost_seconds,
        record.queued_us,
        record.deadline_us,
        record.not_before_us,
    )
