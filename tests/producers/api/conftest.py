"""A running API on a real stack, with two tenants and a model that somebody offers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from headwater.connectors.jobs import grants, leases, pools, results, tenants, workers
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.grants import Wish
from headwater.connectors.jobs.leases import Beat
from headwater.connectors.jobs.results import Result
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.process import Api
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.failures import FailurePolicy
from headwater.rules.jobs.keys import RANDOM_BYTES, key_hash, key_hint, new_key
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED
from headwater.stack.addresses import Addresses
from headwater.stack.postgres import create_database, database_address
from headwater.stack.s3 import create_bucket
from headwater.streams.outbox.outbox import Outbox

MODEL, POOL = "testcard", "demo"
WORKER = Holder("w1", 1)
POLICY = FailurePolicy()
TERM = 60.0
CAPABILITIES = Capabilities(
    sizes=("720x1280", "1280x720"),
    max_seconds=60,
    parameters={"type": "object", "properties": {"seed": {"type": "integer"}}, "additionalProperties": False},
    gpu_seconds_per_second={"720x1280": 1.0, "1280x720": 1.0},
)


class NoWorkers:
    """An internal port without the endpoint: no worker comes here."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.trouble = ""

    def __enter__(self) -> NoWorkers:
        return self

    def __exit__(self, *_: Any) -> None:
        return


@dataclass
class Served:
    """The API, what it stands on, and clients of its tenants."""

    api: Api
    database: JobsDatabase
    kafka: Kafka
    objects: ObjectStore
    owner_epoch: int
    keys: dict[str, str] = field(default_factory=dict)

    def tenant(self, name: str, **limits: object) -> httpx.Client:
        """A client that holds a new key of the tenant, which is made if it is not there."""
        key = self.keys[name] = new_key(os.urandom(RANDOM_BYTES))
        with self.database.quiet() as transaction:
            tenants.ensure(transaction, name)
            tenants.set_tenant(transaction, name, {"webhook_secrets": ["whsec_" + 32 * "A"], **limits})
            tenants.add_key(transaction, name, key_hash(key), key_hint(key))
        return self.client(key)

    # What a scheduler and a worker do

    worker = WORKER
    policy = POLICY

    def grant(self, job: str) -> AttemptId:
        with self.database.transaction() as transaction:
            [attempt] = grants.grant_batch(transaction, POOL, self.owner_epoch, [Wish(job, *WORKER)], TERM).granted
        return attempt

    def run(self, job: str) -> AttemptId:
        """Granted and claimed."""
        attempt = self.grant(job)
        with self.database.transaction() as transaction:
            leases.claim(transaction, WORKER, [attempt], TERM)
        return attempt

    def step(self, attempt: AttemptId, step: int, steps: int) -> None:
        beat = Beat(job=attempt.job, epoch=attempt.epoch, step=step, steps=steps, stage="generating")
        with self.database.quiet() as transaction:
            leases.beat(transaction, WORKER, [beat], TERM, draining=False)

    def complete(self, attempt: AttemptId, content: bytes = b"a video") -> None:
        key = f"r/{attempt.job}/{attempt.epoch}/video.mp4"
        self.objects.put_whole(key, content)
        with self.database.transaction() as transaction:
            results.complete(transaction, WORKER, [Result(*attempt, {"key": key, "bytes": len(content)}, 1.0)])

    def streams(self) -> object:
        return self.api.health().facts["streams"]

    def no_workers(self) -> NoWorkers:
        return NoWorkers()

    def client(self, key: str, url: str | None = None) -> httpx.Client:
        return httpx.Client(base_url=url or self.api.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture(scope="module")
def served(stack: Addresses) -> Iterator[Served]:
    name = f"t{os.urandom(6).hex()}"
    create_database(stack.postgres, name)
    bucket = stack.s3.rpartition("/")[0] + f"/{name}"
    create_bucket(bucket)
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"{name}."))
    topics.apply(kafka, (JOBS_EVENTS, JOBS_REQUESTED))
    objects = ObjectStore(S3Config.from_url(bucket))
    with JobsDatabase(JobsConfig(dsn=database_address(stack.postgres, name))) as database:
        database.migrate()
        with database.quiet() as transaction:
            pools.ensure(transaction, POOL)
            owner = grants.take_over(transaction, POOL, "test")
            workers.register(
                transaction,
                WORKER,
                pool=POOL,
                slots=100,
                host="here",
                models={MODEL: CAPABILITIES.to_json()},
                policy=POLICY,
            )
        config = ApiConfig(port=0, internal_port=0, key_seconds=0.2)
        parts = {"database": database, "kafka": kafka, "objects": objects}
        with Api(config, web=WebConfig(), endpoint=NoWorkers(), **parts) as api, _relay(database, kafka):  # type: ignore[arg-type]
            yield Served(api, owner_epoch=owner, **parts)  # type: ignore[arg-type]


@contextmanager
def _relay(database: JobsDatabase, kafka: Kafka) -> Iterator[None]:
    relay = Outbox(database, kafka)
    thread = Thread(target=relay.run)
    thread.start()
    yield
    relay.stop()
    thread.join()
