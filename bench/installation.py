"""One installation of ours on running servers: its names, its settings, its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.lag import group_lags
from headwater.connectors.kafka.topics import apply
from headwater.rules.errors import Transient, Unavailable
from headwater.schemas.topics import catalogue
from headwater.stack.addresses import Addresses
from headwater.stack.postgres import create_database, database_address
from headwater.stack.s3 import create_bucket

SITE = "bench"
DEADLINE_SECONDS = 600
"""No step of a benchmark takes as long, even on a machine that does something else."""


@dataclass(frozen=True, slots=True)
class Installation:
    """``name`` is the database and the bucket, and comes before each topic and group. ``home`` holds logs and state.
    ``settings`` are environment variables."""

    addresses: Addresses
    name: str
    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def dsn(self) -> str:
        return database_address(self.addresses.postgres, self.name)

    @property
    def bucket(self) -> str:
        return urlunsplit(urlsplit(self.addresses.s3)._replace(path=f"/{self.name}"))

    def kafka(self) -> Kafka:
        return Kafka(KafkaConfig(self.addresses.kafka, prefix=f"{self.name}."))

    def environment(self) -> dict[str, str]:
        own = {
            "HEADWATER_POSTGRES": self.dsn,
            "HEADWATER_S3": self.bucket,
            "HEADWATER_KAFKA__PREFIX": f"{self.name}.",
            "HEADWATER_SITE": SITE,
            "HEADWATER_STATE_FOLDER": str(self.home / "state"),
            "HEADWATER_LOG_LEVEL": "warning",
        }
        return {**os.environ, **self.addresses.environment(), **own, **self.settings}

    def prepare(self) -> None:
        """Database, bucket, topics and tables. Safe to repeat."""
        self.home.mkdir(parents=True, exist_ok=True)
        create_database(self.addresses.postgres, self.name)
        create_bucket(self.bucket)
        apply(self.kafka(), catalogue((SITE,)))
        with self.catalog() as catalog:
            catalog.migrate()

    def catalog(self) -> Catalog:
        return Catalog(CatalogConfig(self.dsn))

    def command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / "headwater"), *arguments]

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of ours; stopped by SIGTERM where the block ends."""
        with self._log(arguments).open("wb") as log:
            process = subprocess.Popen(
                self.command(*arguments), env=self.environment(), cwd=self.home, stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)

    @contextmanager
    def members(self, *groups: str) -> Iterator[list[subprocess.Popen[bytes]]]:
        """One member of each group, each in its group before the block begins."""
        with ExitStack() as started:
            running = [started.enter_context(self.process("run", group)) for group in groups]
            kafka = self.kafka()
            self.wait(running, lambda: _assigned(kafka, len(groups)), "members in their groups")
            yield running

    def wait(self, processes: Sequence[subprocess.Popen[bytes]], done: Callable[[], bool], what: str) -> None:
        """Raises Unavailable, with what the logs say, where it takes too long or a process ends."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not done():
            ended = any(process.poll() is not None for process in processes)
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in self.home.glob("*.log"))
                why = "a process ended" if ended else f"{DEADLINE_SECONDS} s have passed"
                raise Unavailable(f"still no {what}, and {why}.\n{logs}")
            time.sleep(0.1)

    def _log(self, arguments: Sequence[str]) -> Path:
        return self.home / f"{'-'.join(word.rpartition('/')[2] for word in arguments[:2])}.log"


def fresh_name() -> str:
    """A name that nobody has had on these servers, and that a database, a bucket and a topic may have."""
    return f"bench{uuid.uuid4().hex[:12]}"


def _assigned(kafka: Kafka, groups: int) -> bool:
    """Every group has a member that holds partitions."""
    try:
        lags = group_lags(kafka, time.time())
    except Transient:  # a broker that just started has no coordinator for them yet
        return False
    return sum(any(at.member for at in group.partitions) for group in lags) >= groups
