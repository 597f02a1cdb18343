"""The local stack: Kafka, PostgreSQL, an S3 server and lakeFS as processes of this machine.

A server whose address the environment names (``HEADWATER_KAFKA``, …) is used as it is: neither started nor stopped.

``up``, and what a crash after each step leaves:
 1. prepare: every program is fetched or built into the cache (which never holds a half-built one: see ``cache``);
 2. remember: the home's folder, secrets and ports are on disk, so that every later command finds the same stack;
 3. start: what is not running is started, detached (the next ``up`` finds it by its pid file);
 4. answer: each is asked until it answers (a server that is still starting goes on starting);
 5. finish: the database, the bucket and the first lakeFS user, each created unless it exists.
lakeFS takes steps 3 to 5 after the others have taken theirs, since it lives on two of them. Steps 2 to 5 hold the
home's lock: of two commands at once, one waits for the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwater.rules.errors import BadSettings, HeadwaterError, Unavailable
from headwater.stack import processes
from headwater.stack.addresses import Addresses, from_environment, mask
from headwater.stack.description import Ports, program
from headwater.stack.home import Place, ports_path
from headwater.stack.kafka import Kafka
from headwater.stack.lakefs import LakeFS
from headwater.stack.postgres import Postgres
from headwater.stack.progress import Report, silent, step
from headwater.stack.s3 import S3
from headwater.stack.secrets import Secrets
from headwater.stack.server import Server, wait_until_it_answers
from headwater.stack.usage import Usage, usage

# In the order in which they start; they stop in the reverse order.
SERVERS: tuple[Server, ...] = (Kafka(), Postgres(), S3(), LakeFS())


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now. ``state`` is running, stopped, or external (the environment names it)."""

    name: str
    state: str
    address: str
    version: str
    answering: bool
    answer: str
    usage: Usage | None


class Stack:
    """The stack whose state is below ``home``.

    ``ports`` are the ones that the settings name (``StackConfig.ports``); ``up`` remembers them, so later calls may
    leave them out. ``environment`` is where the ``HEADWATER_*`` addresses are looked for.
    """

    def __init__(
        self, home: Path, ports: Mapping[str, int] | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.home = home.expanduser().resolve()
        self._ports = dict(ports or {})
        self._external = from_environment(environment)

    def up(self, report: Report = silent) -> Addresses:
        """Starts what is not running and waits until all answer. Safe to repeat; on a running stack it changes nothing.

        Raises:
            BadSettings: a port is taken by another program, or is to change while its server runs.
            NotFound: a tool is missing that cannot be fetched.
            Unavailable: a server did not start. What did start keeps running.
        """
        self.prepare(report)
        with processes.locked("stack", self.home):
            place = self._remembered()
            addresses = self._addresses(place)
            self._start([server for server in self._own() if server.name != "lakefs"], place, addresses, report)
            self._start([server for server in self._own() if server.name == "lakefs"], place, addresses, report)
        return addresses

    def prepare(self, report: Report = silent) -> None:
        """Fetches or builds the programs that ``up`` would start, at the same time, the slowest first.

        Raises:
            HeadwaterError: the first failure, after the other programs are done.
        """
        slowest_first = sorted(self._own(), key=lambda server: -program(server.name).build_seconds)
        with ThreadPoolExecutor(len(SERVERS)) as pool:
            for prepared in [pool.submit(server.prepare, report) for server in slowest_first]:
                prepared.result()

    def down(self, report: Report = silent) -> list[str]:
        """Stops every server that this home started, in the order that lets each leave cleanly. Returns their names."""
        if not self.home.exists():
            return []
        with processes.locked("stack", self.home):
            running = [server for server in reversed(SERVERS) if processes.alive(server.name, self.home)]
            for server in running:
                with step(report, server.name, "stop", 2):
                    processes.stop(server.name, self.home, polite=server.stop_signal)
        return [server.name for server in running]

    def addresses(self) -> Addresses:
        """Where the servers are, whether or not they run now.

        Raises:
            NotFound: there has never been a stack at this home, and the environment does not name all four.
        """
        if not self._own():
            return Addresses(**self._external)
        return self._addresses(Place.of(self.home))

    def running(self) -> bool:
        """Whether every server that is ours to start runs."""
        return all(processes.alive(server.name, self.home) for server in self._own())

    def status(self) -> list[ServerStatus]:
        """Each server: whether it runs, where, since when, how much memory it takes, and whether it answers."""
        addresses = self.addresses()
        with ThreadPoolExecutor(len(SERVERS)) as pool:
            return list(pool.map(lambda server: self._status(server, getattr(addresses, server.name)), SERVERS))

    def _status(self, server: Server, address: str) -> ServerStatus:
        running = processes.alive(server.name, self.home)
        external = server.name in self._external
        try:
            if running is None and not external:
                raise Unavailable("stopped")
            answer, answering = server.answer(address), True
        except HeadwaterError as silence:
            answer, answering = silence.happened, False
        return ServerStatus(
            name=server.name,
            state="external" if external else "running" if running else "stopped",
            address=mask(address),
            version="" if external else program(server.name).version,
            answering=answering,
            answer=answer,
            usage=usage(running) if running and not external else None,
        )

    def _start(self, servers: Sequence[Server], place: Place, addresses: Addresses, report: Report) -> None:
        started = [server for server in servers if not processes.alive(server.name, self.home)]
        for server in started:
            server.start(place, addresses)
        for server in servers:
            address = getattr(place.addresses(), server.name)
            action = "start" if server in started else "check"
            with step(report, server.name, action, program(server.name).start_seconds):
                wait_until_it_answers(server, place, address)
                server.finish(place, address)

    def _own(self) -> list[Server]:
        return [server for server in SERVERS if server.name not in self._external]

    def _addresses(self, place: Place) -> Addresses:
        return replace(place.addresses(), **self._external)

    def _remembered(self) -> Place:
        """Step 2: the ports that were asked for, else the remembered ones, else the default ones, are on disk."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = ports_path(self.home)
        before = Place.of(self.home).ports if path.exists() else Ports.default()
        ports = replace(before, **self._ports)
        self._refuse_to_move_running(before, ports)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(ports)), encoding="utf-8")
        draft.replace(path)
        return Place(self.home, ports, Secrets.of(self.home))

    def _refuse_to_move_running(self, before: Ports, after: Ports) -> None:
        for server in SERVERS:
            now, then = before.of(server.name), after.of(server.name)
            if now != then and processes.alive(server.name, self.home):
                raise BadSettings(
                    f"{server.name} runs on {now}, and the settings say {then}.",
                    kept="It keeps running where it is.",
                    advice="Run `headwater down` first.",
                )
