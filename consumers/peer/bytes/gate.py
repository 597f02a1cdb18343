"""Who may come in: the listener, and the handshakes of those who knock, few at a time and not for long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.wire import Connection, Identity
from headwater.consumers.peer.config import PeerConfig
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError, Refused

log = logs.logger()

_BACKLOG = 1024
_PATIENCE_SECONDS = 0.5
"""So long at least may a handshake take. Where all places are taken, one that has taken longer goes."""


class Gate:
    """Accepts connections; ``welcome`` is called with each that showed the key, in a thread of its own."""

    def __init__(
        self, config: PeerConfig, identity: Identity, key: bytes, welcome: Callable[[Connection], None]
    ) -> None:
        self.strangers = 0
        self._config = config
        self._identity = identity
        self._key = key
        self._welcome = welcome
        self._free = threading.Semaphore(config.handshakes)
        self._lock = threading.Lock()
        self._knocking: dict[socket.socket, float] = {}
        self._known_strangers: set[str] = set()
        self._closed = False
        try:
            self._listener = socket.create_server((config.listen, config.port), family=_family(config.listen))
        except OSError as error:
            raise Refused(
                f"{config.listen} port {config.port} cannot be listened on: {error.strerror}.",
                asked="A peer was to start.",
                advice="End what uses the port, or set peer.port to another.",
            ) from error
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="peer-gate", daemon=True)

    def start(self) -> None:
        self._listener.listen(_BACKLOG)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        wire.shut(self._listener)  # wakes the thread that accepts
        self._listener.close()
        with self._lock:
            for knocking in self._knocking:
                wire.shut(knocking)

    def _accept(self) -> None:
        while True:
            while not self._free.acquire(timeout=0.1):
                self._hurry()
            try:
                accepted, (address, *_) = self._listener.accept()
            except OSError as error:
                self._free.release()
                if self._closed:
                    return
                log.warning("peer.accept_failed", error=str(error))
                time.sleep(0.1)  # no descriptors left, most likely: others will close some
                continue
            with self._lock:
                self._knocking[accepted] = time.monotonic()
            shaking = threading.Thread(target=self._shake, args=(accepted, address), name="peer-served", daemon=True)
            try:
                shaking.start()
            except RuntimeError as error:  # no threads left: the others go on
                log.warning("peer.accept_failed", error=str(error))
                self._leave(accepted)
                accepted.close()

    def _hurry(self) -> None:
        """All places are taken: the oldest goes, if it had its time."""
        with self._lock:
            oldest = min(self._knocking, key=lambda one: self._knocking[one], default=None)
            if oldest and self._knocking[oldest] < time.monotonic() - _PATIENCE_SECONDS:
                wire.shut(oldest)

    def _shake(self, accepted: socket.socket, address: str) -> None:
        try:
            connection = wire.accept(accepted, self._identity, self._key, self._config.handshake_seconds)
        except HeadwaterError as error:
            if isinstance(error, Refused):
                self._note(address, error)
            connection = None
        finally:
            self._leave(accepted)
        if connection is None:
            accepted.close()
        else:
            self._welcome(connection)

    def _leave(self, accepted: socket.socket) -> None:
        with self._lock:
            del self._knocking[accepted]
        self._free.release()

    def _note(self, address: str, error: Refused) -> None:
        """Counts everybody without the key, names each address once."""
        with self._lock:
            self.strangers += 1
            known = address in self._known_strangers
            if len(self._known_strangers) < _BACKLOG:
                self._known_strangers.add(address)
        if not known:
            log.warning("peer.stranger", address=address, error=str(error))


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
