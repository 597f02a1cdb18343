"""Chunks on their way out: one listener for all who know the key, bounded in everything, and never a queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headwater.consumers.peer.bytes import sending, wire
from headwater.consumers.peer.bytes.gate import Gate
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.slots import RackMate, Slots
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.bytes.wire import Connection, Identity, Kind, Status
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import HeadwaterError, NotFound, Torn


@dataclass(frozen=True, slots=True)
class Served:
    """One upload that ended: to whom, how many bytes went in how many seconds. ``whole``: all that the chunk has.

    ``torn``: the source file changed, in this sentence; nothing of that cast can be served any more.
    """

    epoch: int
    chunk: int
    host: str
    incarnation: int
    bytes: int
    seconds: float
    whole: bool
    torn: str = ""


class Uploads:
    """The listener of a peer and what it serves.

    ``stores`` finds the store of a cast's epoch; None: this peer does not serve it (any more). ``on_control`` gets
    each control connection of another peer and owns it from then on. ``on_served`` is told of each upload that ended.
    ``rack_mate`` says whether a host is in our rack; an origin has none. All are called in the threads of connections:
    they must not block.
    """

    def __init__(
        self,
        config: PeerConfig,
        identity: Identity,
        key: bytes,
        limits: Limits,
        *,
        stores: Callable[[int], ChunkStore | None],
        on_control: Callable[[Connection], None],
        on_served: Callable[[Served], None],
        rack_mate: RackMate | None = None,
    ) -> None:
        """Listens from now on: ``port`` is known. Raises Refused where the port is taken."""
        self._config = config
        self._limits = limits
        self._stores = stores
        self._on_control = on_control
        self._on_served = on_served
        self._lock = threading.Lock()
        self._slots = Slots(rack_mate, config.uploads)
        self._connections: dict[Connection, float] = {}
        """When each began to wait for its next request; infinity while it is served."""
        self._gate = Gate(config, identity, key, self._welcome)

    @property
    def port(self) -> int:
        return self._gate.port

    def start(self) -> None:
        """Accepts from now on: call it when the peer is ready to answer."""
        self._gate.start()

    @property
    def busy(self) -> int:
        """Uploads under way."""
        return self._slots.busy

    def sending(self, epoch: int) -> frozenset[int]:
        """The cast's chunks that are under way now."""
        return self._slots.sending(epoch)

    @property
    def connections(self) -> int:
        """Data connections that are open now."""
        with self._lock:
            return len(self._connections)

    @property
    def strangers(self) -> int:
        """Connections that did not show the key, since the start."""
        return self._gate.strangers

    def drop(self, host: str, incarnation: int) -> None:
        """Closes the data connections of a peer that is not trusted any more, or dead."""
        gone = Identity(host, incarnation)
        with self._lock:
            for connection in self._connections:
                if connection.peer == gone:
                    connection.shutdown()

    def close(self) -> None:
        """Closes listener and data connections; uploads under way are cut."""
        self._gate.close()
        with self._lock:
            for connection in self._connections:
                connection.shutdown()

    def _welcome(self, connection: Connection) -> None:
        """In a thread of the connection's own."""
        if connection.kind is Kind.control:
            self._on_control(connection)
            return
        sending.bound(connection.socket, 2 * self._config.idle_seconds, self._config.stall_seconds)
        with self._lock:
            if len(self._connections) >= self._config.connections:
                min(self._connections, key=lambda one: self._connections[one]).shutdown()
            self._connections[connection] = time.monotonic()
        try:
            with suppress(OSError):
                while request := wire.read_request(connection.socket):
                    with self._lock:
                        self._connections[connection] = float("inf")
                    if not self._answer(connection, *request):
                        break
                    with self._lock:
                        self._connections[connection] = time.monotonic()
        finally:
            with self._lock:
                del self._connections[connection]
            connection.socket.close()

    def _answer(self, connection: Connection, epoch: int, chunk: int) -> bool:
        """False: the connection cannot be used any more."""
        store = self._stores(epoch)
        if store is None:
            wire.answer(connection.socket, Status.not_here)
            return True
        most = self._limits.slots(epoch, store.chunks.chunk_bytes)
        with self._slots.taken(connection.peer.host, epoch, chunk, most) as free:
            if not free:
                wire.answer(connection.socket, Status.busy)
                return True
            return self._upload(connection, store, epoch, chunk)

    def _upload(self, connection: Connection, store: ChunkStore, epoch: int, chunk: int) -> bool:
        began, torn = time.monotonic(), ""
        upload = sending.Upload(connection.socket, store, self._limits, self._config)
        try:
            upload.send(epoch, chunk)
        except NotFound:
            wire.answer(connection.socket, Status.not_here)
            return True
        except Torn as error:
            torn = str(error)
            if not upload.begun:
                with suppress(OSError):
                    wire.answer(connection.socket, Status.refused)
        except (OSError, HeadwaterError):
            pass
        whole = upload.sent == store.chunks.span(chunk)[1]
        self._on_served(
            Served(
                epoch, chunk, connection.peer.host, connection.peer.incarnation, upload.sent,
                time.monotonic() - began, whole, torn,
            )
        )  # fmt: skip
        return whole
