"""The job service as real processes on running servers: what each is called, its settings, tenants and their keys."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from installation import fresh_name
from processes import Processes, wait_until

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.rules.errors import Unavailable
from headwater.schemas.topics import catalogue
from headwater.stack.addresses import Addresses
from headwater.stack.postgres import create_database, database_address
from headwater.stack.s3 import create_bucket

POOL, HOST = "bench", "127.0.0.1"
GROUPS = ("outbox", "dispatch", "sweep", "webhooks")
START_SECONDS = 120.0
"""A dozen Python processes start at once on two cores that do other things."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process of the pool. ``endpoint``: where it finds the internal endpoint, if not at the first API."""

    name: str
    slots: int
    model: str = "noop"
    options: Mapping[str, object] = field(default_factory=dict)
    endpoint: str | None = None

    def arguments(self) -> tuple[str, ...]:
        options = (word for name, value in self.options.items() for word in ("--option", f"{name}={value}"))
        own = ("--name", self.name, "--slots", str(self.slots), *options)
        return ("worker", "--pool", POOL, "--model", self.model, *own)


@dataclass(frozen=True, slots=True)
class Tenant:
    name: str
    key: str
    secret: str


class Service(Processes):
    """``copies`` of each group and of the API, at ``urls``; workers find the first. ``prefix`` begins each topic."""

    def __init__(
        self,
        folder: Path,
        addresses: Addresses,
        workers: Sequence[Worker],
        *,
        prefix: str = "bench.",
        copies: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self.addresses = addresses
        self.prefix = prefix
        self._workers = workers
        ports = free_ports(2 * copies)
        public, internal = ports[:copies], ports[copies:]
        self.urls = [f"http://{HOST}:{port}" for port in public]
        self.internal_port = internal[0]
        names = [f"api.{number}" for number in range(1, copies + 1)]
        groups = {f"{group}.{number}": ("run", group) for group in GROUPS for number in range(1, copies + 1)}
        super().__init__(
            folder,
            _environment(folder, addresses, prefix, internal[0], settings or {}),
            dict.fromkeys(names, ("api",)) | groups | {one.name: one.arguments() for one in workers},
            {
                name: {"HEADWATER_API__PORT": str(port), "HEADWATER_API__INTERNAL_PORT": str(inside)}
                for name, port, inside in zip(names, public, internal, strict=True)
            }
            | {one.name: {"HEADWATER_WORKER__ENDPOINT": one.endpoint} for one in workers if one.endpoint},
        )

    def prepare(self, tenants: Sequence[str]) -> list[Tenant]:
        """Tables, topics, the pool, and the tenants with what they know: by the commands that an operator would run."""
        apply(Kafka(KafkaConfig(self.addresses.kafka, prefix=self.prefix)), catalogue(()))
        with Catalog(CatalogConfig(self.addresses.postgres)) as catalog:
            catalog.migrate()
        with JobsDatabase(JobsConfig(dsn=self.addresses.postgres)) as jobs:
            jobs.migrate()
        self.run("pools", "set", POOL, "--price", "0.01")
        made = [json.loads(self.run("tenants", "add", name, "--json")) for name in tenants]
        return [Tenant(one["tenant"], one["key"], one["webhook_secret"]) for one in made]

    def begin(self) -> None:
        """Start everything, and wait until it is ready for jobs. Raises Unavailable, with what the logs say."""
        self.start_all()
        if not wait_until(lambda: self.ready() or self._has_ended(), START_SECONDS) or self._has_ended():
            raise Unavailable(f"the job service is not ready after {START_SECONDS:.0f} s.\n{self.words()}")

    def words(self) -> str:
        """The end of every log."""
        return "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in sorted(self.folder.glob("*.log")))

    def ready(self) -> bool:
        """Each API answers, every worker is there, and the pool has a scheduler that says how it stands."""
        with psycopg.connect(self.addresses.postgres) as connection:
            active = connection.execute("SELECT count(*) FROM jobs.workers WHERE state = 'active'").fetchone()
            board = connection.execute(
                "SELECT count(*) FROM jobs.pools WHERE pool = %s AND board_at > now() - interval '3 s'", [POOL]
            ).fetchone()
        return active == (len(self._workers),) and board == (1,) and all(map(_answers, self.urls))

    def _has_ended(self) -> bool:
        return any(running.process.poll() is not None for running in self._running.values())


@contextmanager
def serving(
    addresses: Addresses, workers: Sequence[Worker], tenants: Sequence[str]
) -> Iterator[tuple[Service, list[Tenant]]]:
    """A service with a database, a bucket and topics of its own on these servers, ready for jobs."""
    name = fresh_name()
    dsn = database_address(addresses.postgres, name)
    own = replace(addresses, postgres=dsn, s3=urlunsplit(urlsplit(addresses.s3)._replace(path=f"/{name}")))
    create_database(addresses.postgres, name)
    create_bucket(own.s3)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        service = Service(Path(folder) / "service", own, workers, prefix=f"{name}.")
        try:
            made = service.prepare(tenants)
            service.begin()
            yield service, made
        except Exception:
            print(service.words(), file=sys.stderr)
            raise
        finally:
            service.stop_all()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that the kernel gives to no outgoing connection meanwhile (it takes those
    from 32768 on): whoever is killed and started again finds its port free."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server((HOST, port)):
            found += [port] if port not in found else []
    return found


def _environment(
    folder: Path, addresses: Addresses, prefix: str, internal_port: int, settings: Mapping[str, str]
) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    own = {
        "HEADWATER_KAFKA__PREFIX": prefix,
        "HEADWATER_STATE_FOLDER": str(folder / "state"),
        "HEADWATER_LOG_LEVEL": "warning",
        "HEADWATER_WORKER__KEY": secrets.token_hex(32),
        "HEADWATER_WORKER__ENDPOINT": f"http://{HOST}:{internal_port}",
        "HEADWATER_WEB__ALLOW_HTTP": "true",
        "HEADWATER_WEB__ALLOW_NETWORKS": json.dumps([f"{HOST}/32"]),
    }
    return {**inherited, **addresses.environment(), **own, **settings}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=2) as answer:
            return int(answer.status) == 200
    except OSError:
        return False
