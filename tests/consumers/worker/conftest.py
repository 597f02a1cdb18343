"""Real workers as processes, against the real endpoint, PostgreSQL, Kafka and S3. The grants are the test's own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import pytest
from confluent_kafka import Producer

from headwater.connectors.jobs import cancel, expiry, grants, pools, reading, submit, tenants
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka import offsets, topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.following import Following
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.producers.api.endpoint.endpoint import Endpoint
from headwater.producers.api.server import Server
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.video import JobView
from headwater.schemas.codec import decode, encode
from headwater.schemas.job_records import GrantKind, JobEvent, JobGrant
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS
from headwater.stack.addresses import Addresses

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))
from chaos.proxy import HOST, Proxy

KEY = "a-key-that-only-workers-know"
POOL = "demo"
LEASE_SECONDS = 6.0
"""Longer than any pause of a loaded machine; tests in which leases shall end have shorter ones."""
POLICY = FailurePolicy(wait_seconds=0.1, longest_wait_seconds=0.1)

Process: TypeAlias = "subprocess.Popen[str]"


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
    epoch: int
    lease_seconds: float
    endpoint: Proxy
    """The way to the endpoint, and the way to S3, of workers that are started ``relayed``."""
    s3: Proxy
    processes: list[Process] = field(default_factory=list)

    def worker(self, model: str = "noop", name: str = "w1", *, relayed: bool = False, **settings: Any) -> Process:
        url = f"http://{HOST}:{self.endpoint.port}" if relayed else self.url
        s3 = urlsplit(self.bucket)
        relayed_s3 = s3._replace(netloc=f"{s3.netloc.partition('@')[0]}@{HOST}:{self.s3.port}")
        config = {"key": KEY, "endpoint": url, "name": name, "work_folder": str(self.folder / "work")}
        said = {
            "worker": config | settings,
            "kafka": self.stack.kafka,
            "prefix": self.prefix,
            "s3": urlunsplit(relayed_s3 if relayed else s3),
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

    def testcard(self, name: str = "w1", *, options: dict[str, Any] | None = None, **settings: Any) -> Process:
        return self.worker("testcard", name, options={"faults": True, **(options or {})}, **settings)

    def submit_card(self, seconds: int = 1, **parameters: Any) -> str:
        """A true video of ``seconds`` x 8 steps."""
        return self.submit("testcard", "64x64", str(seconds), parameters=parameters)

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
            active = [
                one for one in grants.workers_of(transaction, POOL, self.lease_seconds) if worker in (None, one.worker)
            ]
            if not active:
                return []
            wishes = [grants.Wish(job, active[0].worker, active[0].incarnation) for job in jobs]
            granted = grants.grant_batch(transaction, POOL, self.epoch, wishes, self.lease_seconds).granted
        if tell:
            for job, epoch in granted:
                grant = JobGrant(
                    kind=GrantKind.granted, job=job, epoch=epoch, pool=POOL, worker=active[0].worker,
                    incarnation=active[0].incarnation, lease_seconds=self.lease_seconds, at_us=0,
                )  # fmt: skip
                self.producer.produce(self.kafka.physical(JOBS_GRANTS), encode(grant), grant.key(), active[0].partition)
            self.producer.flush(10)
        return [tuple(one) for one in granted]

    def sweep(self) -> None:
        with self.database.transaction() as transaction:
            if expiry.watched(transaction, self.lease_seconds):
                expiry.expire_leases(transaction, POLICY)

    def cancel(self, job: str) -> None:
        with self.database.transaction() as transaction:
            cancel.cancel(transaction, "t", job)

    def is_there(self, worker: str) -> bool:
        """Does it take jobs?"""
        with self.database.quiet() as transaction:
            return worker in [one.worker for one in grants.workers_of(transaction, POOL, self.lease_seconds)]

    def no_lease_ends(self) -> None:
        """Not for an hour, unless something but time ends it."""
        with self.database.quiet() as transaction:
            transaction.execute("UPDATE leases SET expires_at = now() + interval '1 hour'")

    def log(self, worker: str) -> str:
        return (self.folder / f"{worker}.log").read_text()

    def lease(self, job: str) -> tuple[int, int, str] | None:
        """Step, steps and stage as the last beat told them; None: nobody has the job."""
        with self.database.quiet() as transaction:
            row = transaction.execute("SELECT step, steps, stage FROM leases WHERE job = %s", [job]).fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def events(self, job: str) -> list[JobEvent]:
        """What jobs.events says of it so far."""
        places = offsets.partitions(self.kafka, JOBS_EVENTS.name)
        following = Following(self.kafka, offsets.beginnings(self.kafka, places))
        try:
            records = [decode(message.value()) for message in following.catch_up()]
        finally:
            following.close()
        return [record for record in records if isinstance(record, JobEvent) and record.job == job]

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def job(self, job: str) -> JobView:
        with self.database.quiet() as transaction:
            (view,) = reading.present(transaction, [job])
        return view

    def attempts(self, job: str) -> list[Any]:
        with self.database.quiet() as transaction:
            return reading.attempts(transaction, "t", job)


@pytest.fixture
def lease_seconds() -> float:
    return LEASE_SECONDS


@pytest.fixture
def site(
    stack: Addresses, catalog_dsn: str, kafka_prefix: str, bucket: str, tmp_path: Path, lease_seconds: float
) -> Iterator[Site]:
    database = JobsDatabase(JobsConfig(dsn=catalog_dsn, lease_seconds=lease_seconds, connect_seconds=30.0))
    database.migrate()
    with database.transaction() as transaction:
        tenants.ensure(transaction, "t")
        pools.ensure(transaction, POOL)
        epoch = grants.take_over(transaction, POOL, "test")
    kafka = Kafka(KafkaConfig(bootstrap_servers=stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, (JOBS_GRANTS, JOBS_EVENTS))
    endpoint = Endpoint(KEY, database, kafka, POLICY)
    with endpoint, Server("internal", endpoint.app, "127.0.0.1", 0, threads=8, drain_seconds=1.0) as server:
        site = Site(
            stack, kafka_prefix, bucket, database, kafka, kafka.producer(linger_ms=0),
            ObjectStore(S3Config.from_url(bucket)), server.url, tmp_path, epoch, lease_seconds,
            Proxy(urlsplit(server.url).port or 0, free_port()), Proxy(urlsplit(bucket).port or 0, free_port()),
        )  # fmt: skip
        with sweeping(site):
            try:
                yield site
            finally:
                site.end()
                site.endpoint.close()
                site.s3.close()
    database.close()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def sweeping(site: Site) -> Iterator[None]:
    """What the sweeper does, as often as it does."""
    ending = Event()

    def sweep() -> None:
        while not ending.wait(0.25):
            site.sweep()

    thread = Thread(target=sweep)
    thread.start()
    yield
    ending.set()
    thread.join()
