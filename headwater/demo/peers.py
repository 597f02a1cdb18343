"""The demo's fleet: eight peers in two racks, each a process with a folder, a port and a name of its own."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from headwater.demo.commands import CommandLine
from headwater.demo.workplace import Workplace
from headwater.rules.errors import Unavailable
from headwater.stack import processes

RACKS = {"rack-a": ("a1", "a2", "a3", "a4"), "rack-b": ("b1", "b2", "b3", "b4")}
HOSTS = tuple(host for hosts in RACKS.values() for host in hosts)


class Peers:
    """As a context manager it ends those that run."""

    def __init__(self, place: Workplace, headwater: CommandLine) -> None:
        self._place = place
        self._headwater = headwater
        self._wanted: set[str] = set()

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ThreadPoolExecutor(len(HOSTS)) as pool:
            list(pool.map(lambda host: processes.stop(self.process(host), self._place.state), HOSTS))

    def start(self, *hosts: str) -> None:
        for host in hosts:
            self._headwater.start(self.process(host), *self.command(host))
            self._wanted.add(host)

    def kill(self, host: str) -> int:
        """By kill -9; returns its pid."""
        self.require_alive()
        running = processes.alive(self.process(host), self._place.state)
        assert running is not None
        self._wanted.discard(host)
        os.kill(running.pid, signal.SIGKILL)
        return running.pid

    def require_alive(self) -> None:
        """Raises Unavailable where one that should run has ended by itself."""
        for host in sorted(self._wanted):
            name = self.process(host)
            if processes.alive(name, self._place.state) is None:
                log = processes.log_path(name, self._place.state)
                raise Unavailable(
                    f"peer {host} has ended by itself: {processes.last_line(log)}",
                    asked="A file was being cast to eight peers.",
                    kept=f"All state is kept in {self._place.state}.",
                    advice=f"See {log}.",
                )

    def folder(self, host: str) -> Path:
        return self._place.peers / host

    @staticmethod
    def process(host: str) -> str:
        return f"peer-{host}"

    def command(self, host: str) -> tuple[str, ...]:
        rack = next(rack for rack, hosts in RACKS.items() if host in hosts)
        settings = (f"peer.host={host}", f"peer.rack={rack}", f"peer.into={self.folder(host)}")
        return *(word for setting in settings for word in ("--set", setting)), "peer"
