"""The process ``headwater api``: the public port for tenants, the internal port for workers.

Both are stateless: what they know is in the catalog, and any number of these processes may run beside each other.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack
from functools import partial
from threading import Event
from typing import Any, Protocol

from fastapi import FastAPI

from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.config import WebConfig
from headwater.observe.http import Health
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.public.app import public_app
from headwater.producers.api.public.fanout import Fanout
from headwater.producers.api.public.keys import Callers
from headwater.producers.api.public.offers import Market
from headwater.producers.api.public.service import Service
from headwater.producers.api.server import Server


class Internal(Protocol):
    """What is served on the internal port, and the threads beside it."""

    app: FastAPI
    trouble: str
    """Why workers cannot be served; empty: they can."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: Any) -> None: ...


class Api:
    """Serves inside its block, or while ``run`` runs; it starts whether or not Kafka, S3 and the catalog answer."""

    def __init__(
        self,
        config: ApiConfig,
        *,
        database: JobsDatabase,
        kafka: Kafka,
        objects: ObjectStore,
        web: WebConfig,
        endpoint: Internal,
    ) -> None:
        """Raises BadSettings where a port is taken."""
        self._fanout = Fanout(kafka, database)
        self._endpoint = endpoint
        callers, market = Callers(database, config.key_seconds), Market(database)
        service = Service(config, database, objects, web, callers, market, self._fanout)
        opened = partial(Server, threads=config.threads, drain_seconds=config.drain_seconds)
        self._public = opened("public", public_app(service), config.host, config.port)
        self._internal = opened("internal", endpoint.app, config.internal_host, config.internal_port)
        self._stopping = Event()
        self._parts = ExitStack()

    @property
    def url(self) -> str:
        """Where tenants find it on this host."""
        return self._public.url

    @property
    def internal_url(self) -> str:
        """Where workers do."""
        return self._internal.url

    def health(self) -> Health:
        facts = {"streams": self._fanout.watching(), "url": self.url, "internal_url": self.internal_url}
        if trouble := self._endpoint.trouble:
            return Health(False, "degraded", trouble, facts)
        if trouble := self._fanout.trouble:
            return Health(True, "degraded", f"{trouble} Jobs are accepted; streams look into the catalog.", facts)
        return Health(True, "running", "", facts)

    def stop(self) -> None:
        """``run`` returns when what is under way is answered. From any thread, and from a signal's handler."""
        self._stopping.set()

    def run(self) -> None:
        gc.collect()
        gc.freeze()  # what was imported is left out of collections: they would make requests wait
        with self:
            self._stopping.wait()

    def __enter__(self) -> Api:
        with ExitStack() as parts:
            for part in (self._endpoint, self._fanout, self._internal, self._public):
                parts.enter_context(part)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        self._fanout.end()  # streams would last as long as their jobs
        self._public.stop()  # both drain at once
        self._parts.close()
