"""The servers of a stack of its own, each behind a proxy; they can be killed and started again."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from chaos.proxy import HOST, Proxy
from chaos.traffic import Traffic
from headwater.rules.errors import HeadwaterError
from headwater.stack import kafka, lakefs, postgres, processes, s3
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.home import Place
from headwater.stack.postgres import create_database, database_address
from headwater.stack.s3 import create_bucket
from headwater.stack.secrets import Secrets
from headwater.stack.server import Server, wait_until_it_answers

NAMES = ("kafka", "postgres", "s3", "lakefs")
_START_SECONDS = 90.0


class ProxiedKafka(kafka.Kafka):
    """Tells its clients to come to the proxy: they go where the broker says, not where they first found it."""

    def __init__(self, proxy_port: int) -> None:
        self._proxy_port = proxy_port

    def _write_properties(self, place: Place) -> Path:
        path = super()._write_properties(place)
        with path.open("a", encoding="utf-8") as file:  # of two lines for one property the last counts
            file.write(f"advertised.listeners=PLAINTEXT://{HOST}:{self._proxy_port}\n")
        return path


class Servers:
    """Started where the block begins, gone where it ends. ``addresses`` lead through the proxies, ``direct`` do not.
    Of those that ``names`` leaves out there is the address, and nothing behind it."""

    def __init__(self, home: Path, report: Callable[[str], None], names: tuple[str, ...] = NAMES) -> None:
        home.mkdir(parents=True)
        self.names = names
        self.traffic = Traffic()
        self._report = report
        self._place = Place(home.resolve(), Ports.free(), Secrets.of(home))
        outside = Ports.free()
        self.proxies = {
            name: Proxy(
                getattr(self._place.ports, name),
                getattr(outside, name),
                self.traffic.observer if name == "s3" else None,
            )
            for name in names
        }
        self._servers: dict[str, Server] = {
            "kafka": ProxiedKafka(outside.kafka),
            "postgres": postgres.Postgres(),
            "s3": s3.S3(),
            "lakefs": lakefs.LakeFS(),
        }
        direct = self._place.addresses()
        database, bucket = f"chaos{uuid.uuid4().hex[:8]}", f"chaos-{uuid.uuid4().hex[:8]}"
        self.direct = Addresses(
            kafka=direct.kafka,
            postgres=database_address(direct.postgres, database),
            s3=urlunsplit(urlsplit(direct.s3)._replace(path=f"/{bucket}")),
            lakefs=direct.lakefs,
        )
        self.addresses = Addresses(
            **{name: _moved(address, getattr(outside, name)) for name, address in asdict(self.direct).items()}
        )

    def __enter__(self) -> Servers:
        try:
            for name in self.names:
                self._servers[name].prepare(
                    lambda step: None if step.seconds else self._report(f"{step.program}: {step.action}")
                )
            self.start()
            create_database(self._place.addresses().postgres, urlsplit(self.direct.postgres).path.strip("/"))
            create_bucket(self.direct.s3)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        for name in reversed(self.names):
            # Nobody needs their data any more; PostgreSQL would leave its shared memory behind.
            polite = self._servers[name].stop_signal if name == "postgres" else signal.SIGKILL
            processes.stop(name, self._place.home, polite=polite)

    def kill(self, name: str) -> None:
        """kill -9 of all its processes, now."""
        running = processes.alive(name, self._place.home)
        if running is not None:
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(running.pid), signal.SIGKILL)

    def start(self) -> None:
        """Start those that do not run, and wait until each answers."""
        addresses = self._place.addresses()
        later = [name for name in self.names if name == "lakefs"]
        for some in ([name for name in self.names if name != "lakefs"], later):
            for name in some:
                self._patiently(name, addresses)
            for name in some:
                address = getattr(addresses, name)
                wait_until_it_answers(self._servers[name], self._place, address)
                self._servers[name].finish(self._place, address)

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.heal()
        self.start()

    def _patiently(self, name: str, addresses: Addresses) -> None:
        """What was killed leaves its port, and PostgreSQL its shared memory, a moment later."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._servers[name].start(self._place, addresses)
                time.sleep(0.2)
                if processes.alive(name, self._place.home) is not None:
                    return
            except HeadwaterError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} could not be started again; see {self._place.home / 'logs'}")
            time.sleep(0.3)


def _moved(address: str, port: int) -> str:
    if "://" not in address:
        return f"{HOST}:{port}"
    parts = urlsplit(address)
    credentials, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{credentials}{at}{HOST}:{port}"))
