"""The sweeper: what ends because time passes.

reads   leases that ran out, deadlines that passed; attempts and results whose time is over
writes  the jobs' next states (jobs.events, by the outbox); deletes from the bucket what nobody needs
effect  the job of a dead worker is granted again within its lease and a second; nothing is kept for ever
safe    because each end is a compare-and-set under the job's lock, by the database's clock, and only while workers
        could beat (connectors/jobs/expiry). Several sweepers may run, and each may die anywhere
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from threading import Event, Thread

from headwater.connectors.jobs import expiry, workers
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.ends import Held, Move
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import job_metrics, logs, metrics
from headwater.rules.errors import HeadwaterError, Refused, Transient
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.states import JobState
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.state import MemberState, Phase, StateBoard
from headwater.streams.sweep.remains import Remains

log = logs.logger()

GROUP = "sweep"
LOOK_SECONDS = 0.25
_REMAINS_SECONDS = 60.0
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 0.1, 5.0
_DATABASE, _BUCKET = "database", "bucket"


class Sweep:
    """``run`` it in one thread; ``stop`` and ``state`` are safe from any. Removing bytes has a thread of its own: a
    bucket that is slow must not let leases live on."""

    def __init__(self, database: JobsDatabase, store: ObjectStore, policy: FailurePolicy) -> None:
        self._database = database
        self._policy = policy
        self._term_seconds = database.config.lease_seconds
        self._remains = Remains(database, store)
        self._board = StateBoard(GROUP, time.time)
        self._stopping = Event()
        self._random = Random()
        self._failures = 0
        metrics.GROUP_RECORDS.labels(GROUP)

    def state(self) -> MemberState:
        return self._board.read("", ())

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Serve until ``stop``. Outages are waited for."""
        removing = Thread(target=self._remove, name="sweep-remains", daemon=True)
        removing.start()
        self._board.enter(Phase.running)
        while not self._stopping.is_set():
            try:
                self.look()
            except (Transient, Refused) as error:
                self._wait_after(error)
            else:
                self._stopping.wait(LOOK_SECONDS)
        self._board.enter(Phase.draining)
        removing.join()
        self._board.enter(Phase.stopped)

    def look(self) -> None:
        """One transaction; what a crash of the server loses of it, the next look makes again."""
        gone: list[str] = []
        ended: list[tuple[Held, Move]] = []
        with self._database.quiet() as transaction:
            watched = expiry.watched(transaction, self._term_seconds)
            if watched:
                gone = workers.forget_silent(transaction, self._term_seconds)
                ended = expiry.expire_leases(transaction, self._policy)
            late = expiry.expire_deadlines(transaction)
        if ended or late:
            self._database.wake()
        if not watched:
            job_metrics.LEASES_SPARED.inc()
            log.warning("leases.spared", why="Beats could not be heard, or nobody looked: each lease got a full term.")
        for worker in gone:
            log.warning("worker.gone", worker=worker, why=f"It did not beat for {self._term_seconds:.0f} s.")
        self._note(ended, late)

    def _note(self, ends: Sequence[tuple[Held, Move]], late: Sequence[Held]) -> None:
        for held, move in ends:
            job_metrics.LEASES_EXPIRED.labels(held.pool).inc()
            if move.after is JobState.failed:
                job_metrics.JOB_FAILURES.labels(held.pool, move.error_code, "ended").inc()
            log.warning("lease.expired", job=move.job, epoch=move.epoch, state=str(move.after), why=move.reason)
        for one in late:
            log.info("deadline.passed", job=one.job)
        metrics.GROUP_RECORDS.labels(GROUP).inc(len(ends) + len(late))
        job_metrics.SWEEP_TIME.set(time.time())
        self._failures = 0
        self._board.recover(_DATABASE)

    def _wait_after(self, error: HeadwaterError) -> None:
        self._board.degrade(_DATABASE, f"No lease ends meanwhile: {error}")
        log.warning("sweep.waiting", error=str(error))
        pause = full_jitter(
            self._failures, base_seconds=_RETRY_BASE_SECONDS, most_seconds=_RETRY_MOST_SECONDS, random=self._random
        )
        self._failures += 1
        self._stopping.wait(pause)

    def _remove(self) -> None:
        """The other thread."""
        more = False
        while not self._stopping.wait(0.0 if more else _REMAINS_SECONDS):
            try:
                more = self._remains.sweep()
                self._board.recover(_BUCKET)
            except (Transient, Refused) as error:
                more = False
                self._board.degrade(_BUCKET, f"Old results and outputs are not removed: {error}")
                log.warning("sweep.not_removed", error=str(error))
