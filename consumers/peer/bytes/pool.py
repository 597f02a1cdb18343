"""Data connections to other peers, kept for the next chunk: few, and not for long."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.sending import bound
from headwater.consumers.peer.bytes.wire import Connection, Identity, Kind, Shutdown, Status
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import Refused

MOST_IDLE = 64
"""Kept at once: more than one for each rack-mate, as fetches from one source at a time are few."""


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: Connection
    address: str
    since: float


class Pool:
    """All methods from any thread."""

    def __init__(self, config: PeerConfig, identity: Identity, key: bytes) -> None:
        self._config = config
        self._identity = identity
        self._key = key
        self._lock = threading.Lock()
        self._idle: deque[_Idle] = deque()
        """The longest idle first."""

    @contextmanager
    def asked(
        self, host: str, incarnation: int, address: str, epoch: int, chunk: int, uses: Callable[[Shutdown | None], None]
    ) -> Iterator[tuple[Connection, Status, int]]:
        """A connection on which the peer was asked for a chunk, with its answer. The block reads the bytes after it.

        A kept connection that turns out to be dead is replaced once. It is kept again where the block ends well.
        Raises Unavailable or OSError where nobody answers, Refused where it is not that peer, BadRecord.
        """
        peer = Identity(host, incarnation)
        kept = self._take(peer, address)
        connection = kept or self._dial(peer, address, uses)
        try:
            uses(connection.shutdown)
            try:
                status, length = _ask(connection, epoch, chunk)
            except OSError:
                if kept is None:
                    raise
                connection.socket.close()
                connection = self._dial(peer, address, uses)
                status, length = _ask(connection, epoch, chunk)
            yield connection, status, length
        except BaseException:
            connection.socket.close()
            raise
        uses(None)
        self._keep(connection, address)

    def forget(self, host: str) -> None:
        """Closes the idle connections to a host."""
        self._close(lambda idle: idle.connection.peer.host == host)

    def prune(self) -> None:
        """Closes what nobody used for ``idle_seconds``."""
        oldest = time.monotonic() - self._config.idle_seconds
        self._close(lambda idle: idle.since < oldest)

    def close(self) -> None:
        self._close(lambda _: True)

    def _dial(self, peer: Identity, address: str, uses: Callable[[Shutdown | None], None]) -> Connection:
        connection = wire.dial(address, Kind.data, self._identity, self._key, self._config.handshake_seconds, uses)
        if connection.peer != peer:
            connection.socket.close()
            raise Refused(f"{address} is {connection.peer} now, not {peer}.")
        bound(connection.socket, self._config.stall_seconds, self._config.stall_seconds)
        return connection

    def _take(self, peer: Identity, address: str) -> Connection | None:
        """The one that was used last: the others grow old, and go."""
        with self._lock:
            for idle in reversed(self._idle):
                if idle.connection.peer == peer and idle.address == address:
                    self._idle.remove(idle)
                    return idle.connection
        return None

    def _keep(self, connection: Connection, address: str) -> None:
        with self._lock:
            self._idle.append(_Idle(connection, address, time.monotonic()))
            gone = self._idle.popleft() if len(self._idle) > MOST_IDLE else None
        if gone:
            gone.connection.socket.close()
        self.prune()

    def _close(self, chosen: Callable[[_Idle], bool]) -> None:
        with self._lock:
            gone = [idle for idle in self._idle if chosen(idle)]
            for idle in gone:
                self._idle.remove(idle)
        for idle in gone:
            idle.connection.socket.close()


def _ask(connection: Connection, epoch: int, chunk: int) -> tuple[Status, int]:
    wire.ask(connection.socket, epoch, chunk)
    return wire.read_answer(connection.socket)
