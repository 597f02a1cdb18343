"""What a scheduler asks the catalog: everything when it takes a pool over, then once a second what may have changed.

Workers, leases and limits are few, and read whole. The waiting jobs may be a million: of them a slice is compared each
second, so that one of which no record came is found after a second where few wait, after half a minute at most.

A takeover
1. takes   the next ``owner_epoch``: from here on nobody else can grant anything of the pool
2. loads   models and workers, leases, all that waits

A crash after either leaves a pool that its next owner takes over in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.connectors.jobs import grants
from headwater.connectors.jobs.database import JobsDatabase, Transaction
from headwater.connectors.jobs.grants import Waiting
from headwater.observe import logs
from headwater.rules.errors import Fenced
from headwater.rules.jobs.board import Board
from headwater.rules.jobs.fair_queue import Limits
from headwater.rules.jobs.waiting import WaitingJob, whole_seconds
from headwater.streams.dispatch.pool import Pool

log = logs.logger()

_LOADED_AT_A_TIME = 5_000
_LEAST_SLICE = 1_000
_PASS_SECONDS = 30
"""After so many slices, one a second, all that waits was compared."""


class Looking:
    """Used from one thread. All raise what the database's errors are mapped to."""

    def __init__(self, database: JobsDatabase, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._compared: dict[str, tuple[int, str]] = {}
        """Up to where, of the pools whose waiting jobs are more than a slice."""

    def pools(self, partitions: Sequence[int]) -> list[str]:
        """The pools of these partitions."""
        with self._database.quiet() as transaction:
            return [row.pool for row in grants.pools_of(transaction, partitions)]

    def take_over(self, name: str) -> Pool:
        began = time.monotonic()
        with self._database.transaction() as transaction:  # an epoch that a crash could forget would be taken twice
            pool = Pool(name, grants.take_over(transaction, name, self._owner))
        with self._database.quiet() as transaction:
            self._look(transaction, pool)
            for lease in pool.leases.values():
                pool.queue.charge(lease.tenant, lease.cost_seconds)
            self._load(transaction, pool)
        self._compared.pop(name, None)
        seconds = round(time.monotonic() - began, 3)
        log.info("dispatch.took_over", pool=name, epoch=pool.epoch, waiting=len(pool.queue), seconds=seconds)
        return pool

    def look(self, pool: Pool) -> None:
        """What changed: models, workers, limits, leases; a slice of what waits."""
        with self._database.quiet() as transaction:
            self._look(transaction, pool)
            self._compare(transaction, pool)

    def publish(self, pool: Pool, board: Board) -> None:
        """Raises Fenced where another scheduler has taken the pool over."""
        with self._database.quiet() as transaction:
            published = grants.publish_board(transaction, pool.name, pool.epoch, board.to_json())
        if not published:
            raise Fenced(
                f"another scheduler took over pool {pool.name!r}.",
                asked=f"Its board was to be published under epoch {pool.epoch}.",
                kept="Its jobs are in the catalog.",
            )

    def _look(self, transaction: Transaction, pool: Pool) -> None:
        batches = {
            model: int(capabilities.get("max_batch", 1))
            for model, capabilities in grants.models_of(transaction, pool.name)
        }
        limits = {one.tenant: Limits(one.weight, one.max_running) for one in grants.tenants_with_limits(transaction)}
        pool.queue.set_limits(limits)
        pool.set_leases(grants.leases_of(transaction, pool.name))
        pool.set_workers(grants.workers_of(transaction, pool.name, self._database.config.lease_seconds), batches)

    def _load(self, transaction: Transaction, pool: Pool) -> None:
        now_us = time.time_ns() // 1_000
        after: tuple[int, str] | None = None
        while found := grants.waiting(transaction, pool.name, after, _LOADED_AT_A_TIME):
            for one in found:
                pool.queue.put(_waiting_job(one), now_us)
            after = found[-1].queued_us, found[-1].job

    def _compare(self, transaction: Transaction, pool: Pool) -> None:
        """One slice, in the order of acceptance; those that are not known, or in an older version, are read whole."""
        most = max(_LEAST_SLICE, len(pool.queue) // _PASS_SECONDS)
        found = grants.waiting_versions(transaction, pool.name, self._compared.get(pool.name), most)
        if len(found) == most:
            self._compared[pool.name] = found[-1][:2]
        else:
            self._compared.pop(pool.name, None)
        unknown = [
            job
            for _, job, version in found
            if job not in pool.leases and ((known := pool.queue.get(job)) is None or known.version < version)
        ]
        if unknown:
            now_us = time.time_ns() // 1_000
            for one in grants.waiting_of(transaction, unknown):
                pool.queue.put(_waiting_job(one), now_us)


def _waiting_job(row: Waiting) -> WaitingJob:
    return WaitingJob(*row[:6], whole_seconds(row.seconds), *row[7:])
