"""Chunks on their way in: a few threads, each with one buffer, that ask a source and prove what it sends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.limits import Limits
from headwater.consumers.peer.store import ChunkStore
from headwater.consumers.peer.wire import Identity

COPY = "copy in S3"
"""The host that a fetch names whose ``address`` is the URL of the copy in S3."""


class Outcome(StrEnum):
    """How a fetch ended. Only ``verified`` brought anything; only ``corrupt`` is the source's fault for sure."""

    verified = "verified"
    corrupt = "corrupt"
    """All bytes came and they do not have the chunk's hash."""
    busy = "busy"
    not_here = "not_here"
    refused = "refused"
    """The source, or who answers under its address now, does not serve us: no common key, another incarnation."""
    cut_off = "cut_off"
    """No connection, a connection that broke, or silence for ``stall_seconds``."""
    cancelled = "cancelled"
    no_space = "no_space"
    """This host's disk took no more: no source can help."""


class Fetch:
    """One chunk asked of one source, and how far it is. The scheduler reads it and may cancel it at any time."""

    def __init__(self, epoch: int, chunk: int, host: str, incarnation: int, address: str, store: ChunkStore) -> None:
        """``address``: ``host:port`` of the peer, or the URL of the copy in S3 (then ``host`` is COPY)."""
        self.epoch = epoch
        self.chunk = chunk
        self.host = host
        self.incarnation = incarnation
        self.address = address
        self.store = store
        self.received = 0
        """Bytes of the chunk so far."""
        self.last_progress = time.monotonic()
        """When the last byte came, or the source answered, or the fetch was made; ``time.monotonic``."""
        self.cancelled = False
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def cancel(self) -> None:
        """Ends it at once, from any thread. It is reported as cancelled, unless it had just ended otherwise."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fetched:
    """How a fetch ended: bytes of the chunk that came, seconds from its start in a thread, and a sentence of why."""

    fetch: Fetch
    outcome: Outcome
    bytes: int
    seconds: float
    reason: str = ""


class Fetches:
    """The fetching threads of a peer and the connections that they keep.

    ``on_fetched`` is called once for each fetch, in the thread that did it: it must not block (put into a queue).
    """

    def __init__(
        self,
        config: PeerConfig,
        identity: Identity,
        key: bytes,
        limits: Limits,
        on_fetched: Callable[[Fetched], None],
    ) -> None:
        raise NotImplementedError

    def submit(self, fetch: Fetch) -> None:
        """Begins as soon as one of ``config.fetches`` threads is free. Never blocks."""
        raise NotImplementedError

    def forget(self, host: str) -> None:
        """Closes the idle connections to a host: it died, or is not trusted any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Cancels what is under way and ends the threads."""
        raise NotImplementedError
