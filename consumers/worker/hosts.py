"""The model hosts of a worker: child processes, each with a loaded model, seen from their supervisor.

One reader thread turns what they say and suffer into events. Each runs under a guard: killing it takes all that its
model started along, and it dies with the thread that started it, which is why ``start`` belongs to the main thread of
the process.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any

from headwater.connectors.models import guard
from headwater.consumers.worker.messages import FromHost, Generate, Stop, decode, encode
from headwater.observe import logs

log = logs.logger()

_READ_BYTES = 256 * 1024
_SEND_SECONDS = 2.0
"""A host has a thread that reads: one that takes nothing for so long stands still."""
_EXIT_SECONDS = 1.0
_OURS = ("HEADWATER_", "AWS_")
"""How the names of our own variables begin, keys among them: models run other people's programs on strangers' words."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


@dataclass(frozen=True, slots=True)
class HostSaid:
    host: int
    message: FromHost


@dataclass(frozen=True, slots=True)
class HostDied:
    """``status``: its exit status, negative for a signal."""

    host: int
    status: int


class Host:
    """One process; ``number`` tells it from its predecessors too. For the supervisor's thread and the reader's."""

    def __init__(self, number: int, spec: Mapping[str, Any]) -> None:
        self.number = number
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "headwater.consumers.worker.host", str(theirs.fileno()), json.dumps(spec)]
            self._process = subprocess.Popen(
                guard.guarded(command),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                start_new_session=True,
            )
        self.socket = ours
        self.socket.settimeout(_SEND_SECONDS)
        self._rest = b""

    def send(self, message: Generate | Stop) -> None:
        """To a host that died nothing is sent: its death is an event of its own. One that does not read is killed."""
        try:
            self.socket.sendall(encode(message))
        except TimeoutError:
            self.kill()
        except OSError:
            return

    def kill(self) -> None:
        """At once, and all that it started. Returns before they are gone: the death comes as an event."""
        Thread(target=self._kill, name="kill", daemon=True).start()

    def heard(self) -> list[FromHost] | None:
        """What it said since; None: it will say no more."""
        try:
            came = self.socket.recv(_READ_BYTES)
        except OSError:
            return None
        if not came:
            return None
        *lines, self._rest = (self._rest + came).split(b"\n")
        return [said for line in lines if (said := self._understood(line)) is not None]

    def buried(self) -> HostDied:
        """After its stream ended: collect it, and kill it first where it only fell silent."""
        try:
            status = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            guard.end(self._process)
            status = self._process.wait()
        self.socket.close()
        return HostDied(self.number, status)

    def _kill(self) -> None:
        guard.end(self._process)
        with suppress(OSError):  # who is stuck in the kernel keeps its end of the stream open
            self.socket.shutdown(socket.SHUT_RDWR)

    def _understood(self, line: bytes) -> FromHost | None:
        try:
            said = decode(line)
        except ValueError as error:
            log.error("host.nonsense", host=self.number, error=str(error))
            return None
        return None if isinstance(said, (Generate, Stop)) else said


class Hosts:
    """All hosts of a worker. ``tell`` gets each event, in the reader's thread."""

    def __init__(self, spec: Mapping[str, Any], tell: Callable[[HostSaid | HostDied], None]) -> None:
        self._spec = spec
        self._tell = tell
        self._hosts: dict[int, Host] = {}
        self._started = 0
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._fresh: list[Host] = []
        self._ending = False
        self._reader = Thread(target=self._read, name="hosts", daemon=True)
        self._reader.start()

    def start(self) -> int:
        """Start one more, from the process's main thread; returns its number."""
        self._started += 1
        host = Host(self._started, self._spec)
        self._hosts[host.number] = host
        self._fresh.append(host)
        self._wake()
        return host.number

    def send(self, number: int, message: Generate | Stop) -> None:
        if (host := self._hosts.get(number)) is not None:
            host.send(message)

    def kill(self, number: int) -> None:
        if (host := self._hosts.get(number)) is not None:
            host.kill()

    def close(self) -> None:
        """Kill them all, and wait until they are gone."""
        self._ending = True
        for host in list(self._hosts.values()):
            host.kill()
        self._wake()
        self._reader.join()
        self._waker.close()
        self._woken.close()
        self._selector.close()

    def _wake(self) -> None:
        self._waker.send(b"!")

    def _read(self) -> None:
        while not (self._ending and not self._hosts):
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(_READ_BYTES)
                    self._watch()
                else:
                    self._hear(key.data)

    def _watch(self) -> None:
        while self._fresh:
            host = self._fresh.pop()
            self._selector.register(host.socket, selectors.EVENT_READ, host)

    def _hear(self, host: Host) -> None:
        said = host.heard()
        if said is not None:
            for message in said:
                self._tell(HostSaid(host.number, message))
            return
        self._selector.unregister(host.socket)
        died = host.buried()
        del self._hosts[host.number]
        self._tell(died)
