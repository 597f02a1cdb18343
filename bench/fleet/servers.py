"""Kafka and PostgreSQL of a fleet's own on this machine, reached from every host by its management link.

Kafka listens there itself, since clients go where a broker says that it is. PostgreSQL is led there by a relay: only
the host that publishes needs it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from chaos.proxy import Proxy

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka as KafkaClient
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.schemas.topics import catalogue
from headwater.stack import kafka, postgres, processes
from headwater.stack.description import Ports, program
from headwater.stack.home import LOOPBACK, Place
from headwater.stack.progress import Step
from headwater.stack.secrets import Secrets
from headwater.stack.server import Server, wait_until_it_answers


class FleetKafka(kafka.Kafka):
    """Listens on the management link too, and tells its clients there to stay there."""

    def __init__(self, here: IPv4Address, port: int) -> None:
        self._fleet = f"FLEET://{here}:{port}"

    def _write_properties(self, place: Place) -> Path:
        path = super()._write_properties(place)
        local, ports = f"PLAINTEXT://{LOOPBACK}:{place.ports.kafka}", place.ports
        protocols = program("kafka").settings["listener.security.protocol.map"]
        with path.open("a", encoding="utf-8") as file:  # of two lines for one property the last counts
            file.write(f"listeners={local},{self._fleet},CONTROLLER://{LOOPBACK}:{ports.kafka_controller}\n")
            file.write(f"advertised.listeners={local},{self._fleet}\n")
            file.write(f"listener.security.protocol.map={protocols},FLEET:PLAINTEXT\n")
        return path


@dataclass(frozen=True, slots=True)
class Served:
    """Where this machine's processes reach the two servers, and where the fleet's hosts do."""

    kafka: str
    postgres: str
    fleet_kafka: str
    fleet_postgres: str

    def fleet_environment(self) -> Mapping[str, str]:
        """The variables for a process on a host."""
        return {"HEADWATER_KAFKA": self.fleet_kafka, "HEADWATER_POSTGRES": self.fleet_postgres}

    def client(self) -> KafkaClient:
        return KafkaClient(KafkaConfig(self.kafka))


@contextmanager
def servers(home: Path, here: IPv4Address) -> Iterator[Served]:
    """Both, with topics and tables, until the block ends."""
    place = Place(home.resolve(), Ports.free(), Secrets.of(home))
    local, outside = place.addresses(), Ports.free()
    ours: list[Server] = [FleetKafka(here, outside.kafka), postgres.Postgres()]
    with ExitStack() as running:
        for server in ours:
            server.prepare(_print_step)
            running.callback(processes.stop, server.name, place.home, polite=_stop_signal(server))
            server.start(place, local)
        for server in ours:
            address = getattr(local, server.name)
            wait_until_it_answers(server, place, address)
            server.finish(place, address)
        running.callback(Proxy(place.ports.postgres, outside.postgres, host=str(here)).close)
        served = Served(
            local.kafka, local.postgres, f"{here}:{outside.kafka}", _moved(local.postgres, here, outside.postgres)
        )
        apply(served.client(), catalogue(()))
        with Catalog(CatalogConfig(local.postgres)) as catalog:
            catalog.migrate()
        yield served


def _stop_signal(server: Server) -> signal.Signals:
    """Nobody needs their data any more; PostgreSQL would leave its shared memory behind."""
    return server.stop_signal if server.name == "postgres" else signal.SIGKILL


def _moved(address: str, host: IPv4Address, port: int) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{host}:{port}"))


def _print_step(step: Step) -> None:
    if step.seconds is None:
        print(f"stack: {step.program}: {step.action}", file=sys.stderr, flush=True)
