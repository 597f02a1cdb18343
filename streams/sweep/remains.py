"""Removes from the bucket what nobody needs any more, and notes it.

1. name    attempts, or jobs, whose time is over: one transaction
2. delete  their objects, each harmless to delete twice
3. note    that they are gone: one transaction

A crash, or an S3 that is away, leaves what was not noted for the next time.
"""

from __future__ import annotations

from headwater.connectors.jobs import remains
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.remains import Leftover
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import job_metrics

AT_ONCE = 100
_KEYS_AT_ONCE = 10_000


class Remains:
    """Used from one thread. Every method raises Unavailable and Refused."""

    def __init__(self, database: JobsDatabase, store: ObjectStore) -> None:
        self._database = database
        self._store = store

    def sweep(self) -> bool:
        """A bounded part of all there is; True: more may be there."""
        return any([self.sweep_outputs() == AT_ONCE, self.sweep_results() >= AT_ONCE, self.forget_keys()])

    def sweep_outputs(self) -> int:
        """What attempts left that did not win, and the checkpoints of those that did."""
        with self._database.quiet() as transaction:
            named = remains.leftovers(transaction, AT_ONCE)
        for one in named:
            self._delete(one)
        with self._database.quiet() as transaction:
            remains.swept(transaction, [one.id for one in named])
        job_metrics.SWEPT.labels("outputs").inc(len(named))
        return len(named)

    def sweep_results(self) -> int:
        """All bytes of jobs whose time is over."""
        with self._database.quiet() as transaction:
            named = remains.expired(transaction, AT_ONCE)
        for job in named:
            for key in self._store.list_keys(f"r/{job}/"):
                self._store.delete(key)
        with self._database.quiet() as transaction:
            remains.removed(transaction, named)
        job_metrics.SWEPT.labels("results").inc(len(named))
        return len(named)

    def forget_keys(self) -> bool:
        with self._database.quiet() as transaction:
            forgotten = remains.forget_keys(transaction, _KEYS_AT_ONCE)
        job_metrics.SWEPT.labels("keys").inc(forgotten)
        return forgotten == _KEYS_AT_ONCE

    def _delete(self, one: Leftover) -> None:
        folder = f"r/{one.job}/{one.epoch}/"
        for key in self._store.list_keys(f"{folder}checkpoint-" if one.won else folder):
            self._store.delete(key)
