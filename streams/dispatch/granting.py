"""A grant: the job is the worker's in the catalog, then the worker is told.

1. choose  whom to give what: no I/O
2. grant   one transaction compares and sets each job, within the worker's slots and the tenant's limit, under this
           scheduler's ownership of the pool. Its commit does not wait for the disk: decisions/294
3. tell    a record for each to the partition that its worker reads; nobody waits until the log has it

A crash after 1 leaves nothing. After 2 the worker hears of the job with its next beat, which asks the catalog; if it
is dead, the lease ends, and the job is granted again. So 3 only saves time, and a record more or less does no harm:
the worker must claim the job in the catalog before it begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import KafkaException

from headwater.connectors.jobs import grants
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.grants import Lease
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.observe import job_metrics, logs
from headwater.rules.errors import BadRecord
from headwater.rules.jobs.deadlines import infeasible_reason
from headwater.schemas.codec import encode
from headwater.schemas.job_records import GrantKind, JobGrant
from headwater.schemas.topics import JOBS_GRANTS
from headwater.streams.dispatch.pool import Pool

log = logs.logger()

_MOST = 200
"""Grants of one transaction. Each locks a job, and the next pool waits."""

_SETTINGS = {
    # A grant is told at once: it is one of the steps between a request and its start.
    "linger_ms": 0,
    # Later the worker has asked the catalog.
    "message_timeout_ms": 5_000,
}


class Granting:
    """Used from one thread."""

    def __init__(self, kafka: Kafka, database: JobsDatabase) -> None:
        self._kafka = kafka
        self._database = database
        self._lease_seconds = database.config.lease_seconds
        self._producer = kafka.producer(**_SETTINGS)

    def grant(self, pool: Pool) -> None:
        """Until nothing more can be granted. Raises Fenced where another scheduler has the pool, Unavailable where the
        catalog does not answer: what became of the last grants is unknown then."""
        while True:
            began = time.perf_counter()
            now_us = time.time_ns() // 1_000
            self._expire(pool, now_us)
            wishes = pool.wishes(now_us, _MOST)
            if not wishes:
                return
            with self._database.quiet() as transaction:
                outcome = grants.grant_batch(transaction, pool.name, pool.epoch, wishes, self._lease_seconds)
            self.tell(pool, GrantKind.granted, pool.granted(outcome, wishes, now_us))
            job_metrics.JOB_GRANTS.labels(pool.name, "granted").inc(len(outcome.granted))
            for _, reason in outcome.refused:
                job_metrics.JOB_GRANTS.labels(pool.name, reason).inc()
            job_metrics.DISPATCH_SECONDS.labels(pool.name).observe(time.perf_counter() - began)

    def tell(self, pool: Pool, kind: GrantKind, leases: Iterable[Lease]) -> None:
        """Step 3; or that a granted job is to be stopped."""
        now_us = time.time_ns() // 1_000
        for lease in leases:
            worker = pool.workers.get(lease.worker)
            if worker is None:
                continue  # it is gone, or will ask
            record = JobGrant(
                kind=kind,
                job=lease.job,
                epoch=lease.epoch,
                pool=pool.name,
                worker=lease.worker,
                incarnation=lease.incarnation,
                lease_seconds=self._lease_seconds,
                at_us=now_us,
            )
            self._produce(record, worker.partition)
        self._producer.poll(0)

    def close(self) -> None:
        """Give the log a second for what is on its way."""
        self._producer.flush(1.0)

    def _expire(self, pool: Pool, now_us: int) -> None:
        """Those that cannot be in time any more, whatever happens."""
        late = pool.queue.infeasible(now_us)
        if not late:
            return
        reasons = [
            (job.job, infeasible_reason(job.deadline_us, job.cost_seconds, now_us))
            for job in late
            if job.deadline_us is not None
        ]
        with self._database.transaction() as transaction:
            expired = grants.expire_infeasible(transaction, pool.name, pool.epoch, reasons)
        log.info("dispatch.expired", pool=pool.name, jobs=len(expired))

    def _produce(self, record: JobGrant, partition: int) -> None:
        try:
            self._producer.produce(
                self._kafka.physical(JOBS_GRANTS),
                key=record.key(),
                value=encode(record),
                partition=partition,
                headers=event_headers(record.at_us),  # type: ignore[arg-type]  # stubs: invariant list
            )
        except (BufferError, KafkaException, BadRecord) as error:
            log.warning("dispatch.untold", job=record.job, worker=record.worker, error=str(error))
