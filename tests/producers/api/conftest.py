"""A running API on a real stack, with two tenants and a model that somebody offers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from psycopg.types.json import Jsonb

from headwater.connectors.jobs import pools, tenants
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.process import Api
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.keys import RANDOM_BYTES, key_hash, key_hint, new_key
from headwater.schemas.topics import JOBS_EVENTS
from headwater.stack.addresses import Addresses
from headwater.stack.postgres import create_database, database_address
from headwater.stack.s3 import create_bucket

MODEL = "testcard"
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
    keys: dict[str, str] = field(default_factory=dict)

    def tenant(self, name: str, **limits: object) -> httpx.Client:
        """A client that holds a new key of the tenant, which is made if it is not there."""
        key = self.keys[name] = new_key(os.urandom(RANDOM_BYTES))
        with self.database.quiet() as transaction:
            tenants.ensure(transaction, name)
            tenants.set_tenant(transaction, name, {"webhook_secrets": ["whsec_" + 32 * "A"], **limits})
            tenants.add_key(transaction, name, key_hash(key), key_hint(key))
        return self.client(key)

    def client(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.api.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture(scope="module")
def served(stack: Addresses) -> Iterator[Served]:
    name = f"t{os.urandom(6).hex()}"
    create_database(stack.postgres, name)
    bucket = stack.s3.rpartition("/")[0] + f"/{name}"
    create_bucket(bucket)
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"{name}."))
    topics.apply(kafka, (JOBS_EVENTS,))
    objects = ObjectStore(S3Config.from_url(bucket))
    with JobsDatabase(JobsConfig(dsn=database_address(stack.postgres, name))) as database:
        database.migrate()
        with database.quiet() as transaction:
            pools.ensure(transaction, "demo")
            transaction.execute(
                "INSERT INTO models (model, pool, capabilities) VALUES (%s, 'demo', %s)",
                [MODEL, Jsonb(CAPABILITIES.to_json())],
            )
        config = ApiConfig(port=0, internal_port=0, key_seconds=0.2)
        parts = {"database": database, "kafka": kafka, "objects": objects}
        with Api(config, web=WebConfig(), endpoint=NoWorkers(), **parts) as api:  # type: ignore[arg-type]
            yield Served(api, **parts)  # type: ignore[arg-type]
