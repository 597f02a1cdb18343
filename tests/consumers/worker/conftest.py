"""Real workers as processes, against the real endpoint, PostgreSQL, Kafka and S3. The grants are the test's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater.connectors.jobs import expiry, grants, pools, reading, submit, tenants
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.producers.api.endpoint.endpoint import Endpoint
from headwater.producers.api.server import Server
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.video import JobView
from headwater.schemas.codec import encode
from headwater.schemas.job_records import GrantKind, JobGrant
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS
from headwater.stack.addresses import Addresses

KEY = "a-key-that-only-workers-know"
POOL = "demo"
LEASE_SECONDS = 2.0


@dataclass
class Site:
    """What a worker meets, and the scheduler's and the sweeper's part, which the test plays."""

    stack: Addresses
    prefix: str
    bucket: str
    database: JobsDatabase
    kafka: Kafka
    producer: Producer
    store: ObjectStore
    url: str
    folder: Path
    epoch: int = 0
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def worker(self, model: str = "noop", name: str = "w1", **settings: Any) -> subprocess.Popen[str]:
        config = {"key": KEY, "endpoint": self.url, "name": name, "work_folder": str(self.folder / "work")}
        said = {
            "worker": config | settings,
            "kafka": self.stack.kafka,
            "prefix": self.prefix,
            "s3": self.bucket,
            "pool": POOL,
            "model": model,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "run_worker.py"), json.dumps(said)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.processes.append(process)
        return process

    def submit(self, model: str = "noop", size: str = "1x1", seconds: str = "1", **request: Any) -> str:
        job = f"video_{uuid.uuid4().hex}"
        asked = {"prompt": "a red fox", "size": size, "seconds": seconds, **request}
        with self.database.transaction() as transaction:
            submit.submit(
                transaction,
                submit.Submission(job=job, tenant="t", pool=POOL, model=model, request=asked, cost_seconds=1.0),
            )
        return job

    def grant(self, *jobs: str, worker: str | None = None, tell: bool = True) -> list[tuple[str, int]]:
        """Grant queued jobs to a worker that takes some, as the scheduler does; [] where none has a slot."""
        with self.database.transaction() as transaction:
            active = [one for one in grants.workers_of(transaction, POOL) if worker in (None, one.worker)]
            if not active:
                return []
            wishes = [grants.Wish(job, active[0].worker, active[0].incarnation) for job in jobs]
            granted = grants.grant_batch(transaction, POOL, self.epoch, wishes, LEASE_SECONDS).granted
        if tell:
            for job, epoch in granted:
                grant = JobGrant(
                    kind=GrantKind.granted, job=job, epoch=epoch, pool=POOL, worker=active[0].worker,
                    incarnation=active[0].incarnation, lease_seconds=LEASE_SECONDS, at_us=0,
                )  # fmt: skip
                self.producer.produce(self.kafka.physical(JOBS_GRANTS), encode(grant), grant.key(), active[0].partition)
            self.producer.flush(10)
        return [tuple(one) for one in granted]

    def sweep(self) -> None:
        with self.database.transaction() as transaction:
            expiry.expire_leases(transaction, LEASE_SECONDS, FailurePolicy())

    def job(self, job: str) -> JobView:
        with self.database.quiet() as transaction:
            (view,) = reading.present(transaction, [job])
        return view

    def attempts(self, job: str) -> list[Any]:
        with self.database.quiet() as transaction:
            return reading.attempts(transaction, "t", job)


@pytest.fixture
def site(stack: Addresses, catalog_dsn: str, kafka_prefix: str, bucket: str, tmp_path: Path) -> Iterator[Site]:
    database = JobsDatabase(JobsConfig(dsn=catalog_dsn, lease_seconds=LEASE_SECONDS))
    database.migrate()
    with database.transaction() as transaction:
        tenants.ensure(transaction, "t")
        pools.ensure(transaction, POOL)
        epoch = grants.take_over(transaction, POOL, "test")
        expiry.tick(transaction, expiry.SWEEP)
    kafka = Kafka(KafkaConfig(bootstrap_servers=stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, (JOBS_GRANTS, JOBS_EVENTS))
    endpoint = Endpoint(KEY, database, kafka, FailurePolicy())
    with endpoint, Server("internal", endpoint.app, "127.0.0.1", 0, threads=8, drain_seconds=1.0) as server:
        store = ObjectStore(S3Config.from_url(bucket))
        producer = kafka.producer(linger_ms=0)
        site = Site(stack, kafka_prefix, bucket, database, kafka, producer, store, server.url, tmp_path, epoch)
        try:
            yield site
        finally:
            for process in site.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
    database.close()


Eventually = Callable[..., Any]
