"""A database of jobs with one tenant, one pool and one worker, and short ways to move a job: for tests of all rooms."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headwater.connectors.jobs import cancel, expiry, grants, leases, pools, results, submit, tenants, workers
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.grants import Wish
from headwater.connectors.jobs.leases import Claimed
from headwater.connectors.jobs.results import EndOutcome, Result
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.connectors.jobs.submit import Submission, Submitted
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.video import JobView

TERM = 10.0
"""Seconds of a lease."""
POLICY = FailurePolicy()


@dataclass
class Place:
    """What tests do to the database ``jobs``, each call in a transaction of its own."""

    jobs: JobsDatabase
    pool: str = "gpu"
    tenant: str = "acme"
    worker: Holder = field(default_factory=lambda: Holder("w1", 1))
    owner_epoch: int = 0

    def empty(self) -> None:
        """As it was at first. To delete a few rows is faster than to truncate tables, or to make a database."""
        tables = "jobs, attempts, leases, outbox, deliveries, charges, usage, idempotency, allowances, alive, workers"
        others = "models, disabled_endpoints, api_keys, pools, tenants"
        self.query("; ".join(f"DELETE FROM {table}" for table in f"{tables}, {others}".split(", ")))
        self.prepare()

    def prepare(self) -> None:
        with self.jobs.transaction() as transaction:
            tenants.ensure(transaction, self.tenant)
            pools.ensure(transaction, self.pool)
            self.owner_epoch = grants.take_over(transaction, self.pool, "me")
            expiry.tick(transaction, expiry.ENDPOINT)
            expiry.tick(transaction, expiry.SWEEP)
        self.register(self.worker)

    def submission(self, **changes: Any) -> Submission:
        given: dict[str, Any] = {
            "job": f"video_{uuid.uuid4().hex}",
            "tenant": self.tenant,
            "pool": self.pool,
            "model": "testcard",
            "request": {"prompt": "a red fox", "size": "64x64", "seconds": "2"},
            "cost_seconds": 1.0,
        }
        return Submission(**given | changes)

    def post(self, **changes: Any) -> Submitted:
        with self.jobs.transaction() as transaction:
            return submit.submit(transaction, self.submission(**changes))

    def submit(self, **changes: Any) -> str:
        view = self.post(**changes).view
        assert view is not None
        return view.job

    def grant(self, *jobs: str, worker: Holder | None = None) -> list[AttemptId]:
        return self.try_grant(*jobs, worker=worker).granted

    def try_grant(self, *jobs: str, worker: Holder | None = None) -> grants.Grants:
        wishes = [Wish(job, *(worker or self.worker)) for job in jobs]
        with self.jobs.transaction() as transaction:
            return grants.grant_batch(transaction, self.pool, self.owner_epoch, wishes, TERM)

    def claim(self, *ids: AttemptId, worker: Holder | None = None) -> list[Claimed]:
        with self.jobs.transaction() as transaction:
            return leases.claim(transaction, worker or self.worker, ids, TERM)

    def run(self, *jobs: str) -> list[AttemptId]:
        """Granted and claimed."""
        granted = self.grant(*jobs)
        assert len(self.claim(*granted)) == len(jobs)
        return granted

    def complete(self, *ids: AttemptId, worker: Holder | None = None, seconds: float = 2.0) -> list[EndOutcome]:
        told = [Result(*id, {"key": f"r/{id.job}/{id.epoch}/video.mp4"}, seconds) for id in ids]
        with self.jobs.transaction() as transaction:
            outcomes = results.complete(transaction, worker or self.worker, told)
        return [outcomes[id] for id in ids]

    def beat(self, *beats: leases.Beat, worker: Holder | None = None, draining: bool = False) -> leases.BeatAnswer:
        with self.jobs.quiet() as transaction:
            return leases.beat(transaction, worker or self.worker, beats, TERM, draining=draining)

    def beat_checkpoint(self, id: AttemptId, step: int, worker: Holder | None = None) -> leases.BeatAnswer:
        checkpoint = {"key": f"r/{id.job}/{id.epoch}/checkpoint-{step}", "step": step, "epoch": id.epoch}
        beat = leases.Beat(job=id.job, epoch=id.epoch, step=step, steps=10, stage="generating", checkpoint=checkpoint)
        return self.beat(beat, worker=worker)

    def cancel(self, job: str) -> JobView | None:
        with self.jobs.transaction() as transaction:
            return cancel.cancel(transaction, self.tenant, job)

    def delete(self, job: str) -> JobView | None:
        with self.jobs.transaction() as transaction:
            return cancel.delete(transaction, self.tenant, job)

    def undelete(self, job: str) -> JobView | None:
        with self.jobs.transaction() as transaction:
            return cancel.undelete(transaction, self.tenant, job)

    def register(self, worker: Holder, slots: int = 4, **models: dict[str, Any]) -> int:
        with self.jobs.transaction() as transaction:
            return workers.register(
                transaction,
                worker,
                pool=self.pool,
                slots=slots,
                host="h1",
                models=models or {"testcard": {}},
                policy=POLICY,
            )

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.jobs.transaction() as transaction:
            cursor = transaction.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def state(self, job: str) -> str:
        return str(self.query("SELECT state FROM jobs WHERE job = %s", job)[0][0])


@contextmanager
def any_place(dsn: str) -> Iterator[Place]:
    """On an empty database."""
    with JobsDatabase(JobsConfig(dsn=dsn)) as database:
        database.migrate()
        place = Place(database)
        place.prepare()
        yield place
