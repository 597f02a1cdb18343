"""A few hosts on the loopback that cast files to each other through the shared broker: each a process of its own.

Rates are capped, so that there is a middle of a cast in which something can happen.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from fleet.disks import received_share, sha256
from fleet.layout import Host
from fleet.members import Members
from fleet.story import CastLog, Story

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.schemas.cast_records import CastEventKind
from headwater.schemas.topics import catalogue
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.local import Stack

MIB = 1024 * 1024
PATIENCE_SECONDS = 120.0
RATE = 8 * MIB
"""Bytes per second of each host, each way."""
LOOPBACK = IPv4Address("127.0.0.1")
ORIGIN = Host("origin", "", LOOPBACK, 0)


class Swarm:
    """``hosts`` by name: h0-1 is the second of rack r0. ``members`` are their processes, ``log`` what they say."""

    def __init__(self, folder: Path, members: Members, log: CastLog) -> None:
        self.folder, self.members, self.log = folder, members, log
        self.hosts: dict[str, Host] = {}

    def peers(self, *racks: int) -> None:
        """So many daemons in each rack, all of them members before it returns."""
        self.place(*racks)
        self.start_peers()

    def place(self, *racks: int) -> None:
        """So many hosts in each rack, on which nothing runs yet."""
        for rack, count in enumerate(racks):
            for position in range(count):
                self.place_one(f"h{rack}-{position}", f"r{rack}")

    def place_one(self, name: str, rack: str) -> None:
        self.hosts[name] = Host(name, rack, LOOPBACK, len(self.hosts) + 1)

    def start_peers(self) -> None:
        """A daemon on every host that has none, all of them members before it returns."""
        for name, host in self.hosts.items():
            if not self.members.lives(name):
                self.members.peer(host)
        self.wait(lambda: set(self.hosts) <= self.log.joined(), "peers")

    def file(self, size: int, name: str = "weights.bin") -> Path:
        path = self.folder / name
        path.write_bytes(random.Random(name).randbytes(size))
        return path

    def publish(self, file: Path, cast: str = "weights", *words: str) -> str:
        """Returns when the cast is on the log."""
        before = self.log.newest(cast)
        publisher = self.members.publish(ORIGIN, file, cast, *words)
        self.wait(lambda: self.log.newest(cast) is not before, f"cast {cast}", publisher)
        return publisher

    def story(self, cast: str = "weights") -> Story:
        told = self.log.newest(cast)
        assert told is not None
        return told

    def wait(self, done: Callable[[], bool], what: str, *alive: str) -> None:
        """Until it is so; fails when it takes too long, or one of those processes ends."""

        def ended() -> str:
            return "".join(f"{name}: {self.members.words(name)}" for name in alive if not self.members.lives(name))

        self.log.wait(done, PATIENCE_SECONDS, what, ended)

    def wait_installed(self, *names: str, cast: str = "weights") -> None:
        wanted = set(names or self.hosts)
        self.wait(lambda: wanted <= set(self.story(cast).installed), f"{cast} on {sorted(wanted)}")

    def wait_received(self, name: str, share: float, file: Path) -> None:
        self.wait(lambda: self.share(name, file) >= share, f"{share:.0%} of {file.name} on {name}", name)

    def share(self, name: str, file: Path) -> float:
        return received_share(self.members.into(self.hosts[name]), file.name)

    def copy(self, name: str, file: Path) -> Path:
        return self.members.into(self.hosts[name]) / file.name

    def right(self, file: Path) -> set[str]:
        """The hosts that have the file under its name, all bytes right by sha256sum."""
        copies = {name: self.copy(name, file) for name in self.hosts if self.copy(name, file).exists()}
        digests = sha256([file, *copies.values()])
        return {name for name, copy in copies.items() if digests[copy] == digests[file]}

    def report(self, cast: str) -> tuple[int, dict[str, Any]]:
        """What `headwater cast report` ends with, and says."""
        self.members.start("report", ORIGIN, "cast", "report", cast, "--json")
        code = self.members.wait("report", PATIENCE_SECONDS)
        return code, json.loads(self.members.log("report").read_text().splitlines()[-1])

    def sent(self, name: str) -> int:
        """Bytes that a process wrote, or sent straight from a file, as the kernel counts them in /proc/PID/io."""
        return int(self.members.process(name).io_counters().write_chars)

    def named(self, kind: CastEventKind, cast: str = "weights") -> set[str]:
        return self.story(cast).about(kind)


def installation(addresses: Addresses, prefix: str, dsn: str) -> dict[str, str]:
    """The environment of processes with topics and tables of one test's own."""
    apply(Kafka(KafkaConfig(addresses.kafka, prefix=prefix)), catalogue(()))
    with Catalog(CatalogConfig(dsn)) as catalog:
        catalog.migrate()
    return {
        **addresses.environment(),
        "HEADWATER_POSTGRES": dsn,
        "HEADWATER_KAFKA__PREFIX": prefix,
        "HEADWATER_PEER__BYTES_PER_SECOND": str(RATE),
    }


@contextmanager
def running(folder: Path, environment: Mapping[str, str]) -> Iterator[Swarm]:
    kafka = Kafka(KafkaConfig(environment["HEADWATER_KAFKA"], prefix=environment["HEADWATER_KAFKA__PREFIX"]))
    with CastLog(kafka) as log, Members(folder, environment) as members:
        yield Swarm(folder, members, log)
        assert members.tracebacks() == []


@pytest.fixture
def swarm(tmp_path: Path, stack: Addresses, kafka_prefix: str, catalog_dsn: str) -> Iterator[Swarm]:
    with running(tmp_path, installation(stack, kafka_prefix, catalog_dsn)) as swarm:
        yield swarm


@pytest.fixture
def broker(stack: Addresses, tmp_path: Path) -> Iterator[Stack]:
    """A broker of this test's own, which it may kill; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


@pytest.fixture
def swarm_on_own_broker(broker: Stack, tmp_path: Path, kafka_prefix: str, catalog_dsn: str) -> Iterator[Swarm]:
    with running(tmp_path, installation(broker.addresses(), kafka_prefix, catalog_dsn)) as swarm:
        yield swarm
