"""Chunks on their way in: a few threads, each with one buffer, that ask a source and prove what it sends."""

from __future__ import annotations

import mmap
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headwater.consumers.peer.bytes import copy
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.pool import Pool
from headwater.consumers.peer.bytes.store import ChunkStore, NoSecondCopy
from headwater.consumers.peer.bytes.wire import Identity, Shutdown, Status
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import BadRecord, HeadwaterError, NoSpace, NotFound, Refused

COPY = "copy in S3"
"""The host that a fetch names whose ``address`` is the URL of the copy in S3."""
BUFFER_BYTES = 1024 * 1024
"""Hashed and written at once: it fits into a core's cache, and makes system calls rare."""


class Outcome(StrEnum):
    """How a fetch ended. Only ``verified`` brought anything; only ``corrupt`` is the source's fault for sure."""

    verified = "verified"
    corrupt = "corrupt"
    """All bytes came and they do not have the chunk's hash, or the source says another length."""
    busy = "busy"
    """Not now: the source has no slot, or this host no room for a chunk twice while it is on its way already."""
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
        self._shutdown: Shutdown | None = None

    def cancel(self) -> None:
        """Ends it at once, from any thread. It is reported as cancelled, unless it had just ended otherwise."""
        with self._lock:
            self.cancelled = True
            if self._shutdown:
                self._shutdown()

    def uses(self, shutdown: Shutdown | None) -> None:
        """From now on ``cancel`` ends a wait by ``shutdown``. Raises OSError where it was cancelled already."""
        with self._lock:
            self._shutdown = shutdown
            if self.cancelled and shutdown:
                raise ConnectionAbortedError("cancelled")

    def moved(self, count: int) -> None:
        self.received += count
        self.last_progress = time.monotonic()


@dataclass(frozen=True, slots=True)
class Fetched:
    """How a fetch ended: bytes of the chunk that came, seconds from its start in a thread, and a sentence of why."""

    fetch: Fetch
    outcome: Outcome
    bytes: int
    seconds: float
    reason: str = ""


class Source(Protocol):
    """A connection that has answered and now gives the bytes of a chunk."""

    def recv_into(self, buffer: memoryview, /) -> int: ...


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
        self._config = config
        self._limits = limits
        self._on_fetched = on_fetched
        self._pool = Pool(config, identity, key)
        self._waiting: queue.SimpleQueue[Fetch | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._under_way: set[Fetch] = set()
        self._threads = [
            threading.Thread(target=self._work, name=f"peer-fetch-{number}", daemon=True)
            for number in range(config.fetches)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fetch: Fetch) -> None:
        """Begins as soon as one of ``config.fetches`` threads is free. Never blocks."""
        with self._lock:
            self._under_way.add(fetch)
        self._waiting.put(fetch)

    def forget(self, host: str) -> None:
        """Closes the idle connections to a host: it died, or is not trusted any more."""
        self._pool.forget(host)

    def close(self) -> None:
        """Cancels what is under way and ends the threads."""
        with self._lock:
            for fetch in self._under_way:
                fetch.cancel()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._pool.close()

    def _work(self) -> None:
        buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))  # page-aligned, and the same for every chunk
        while True:
            try:
                fetch = self._waiting.get(timeout=self._config.idle_seconds)
            except queue.Empty:
                self._pool.prune()
                continue
            if fetch is None:
                return
            began = time.monotonic()
            outcome, reason = self._outcome(fetch, buffer)
            with self._lock:
                self._under_way.discard(fetch)
            self._on_fetched(Fetched(fetch, outcome, fetch.received, time.monotonic() - began, reason))

    def _outcome(self, fetch: Fetch, buffer: memoryview) -> tuple[Outcome, str]:
        if fetch.cancelled:
            return Outcome.cancelled, ""
        try:
            fetch.last_progress = time.monotonic()
            return (self._from_copy if fetch.host == COPY else self._from_peer)(fetch, buffer)
        except NoSecondCopy as error:
            return Outcome.busy, str(error)
        except NoSpace as error:
            return Outcome.no_space, str(error)
        except Refused as error:
            return Outcome.refused, str(error)
        except NotFound as error:
            return Outcome.not_here, str(error)
        except BadRecord as error:
            return Outcome.corrupt, str(error)
        except (OSError, HeadwaterError) as error:
            return (Outcome.cancelled, "") if fetch.cancelled else (Outcome.cut_off, str(error))
        finally:
            fetch.uses(None)

    def _from_peer(self, fetch: Fetch, buffer: memoryview) -> tuple[Outcome, str]:
        with self._pool.asked(fetch.host, fetch.incarnation, fetch.address, fetch.epoch, fetch.chunk, fetch.uses) as (
            connection,
            status,
            length,
        ):
            if status is not Status.ok:
                return Outcome[status.name], ""
            return self._receive(fetch, connection.socket, length, buffer)

    def _from_copy(self, fetch: Fetch, buffer: memoryview) -> tuple[Outcome, str]:
        start, length = fetch.store.chunks.span(fetch.chunk)
        with copy.opened(fetch.address, start, length, self._config.stall_seconds, fetch.uses) as body:
            return self._receive(fetch, body, length, buffer)

    def _receive(self, fetch: Fetch, source: Source, said: int, buffer: memoryview) -> tuple[Outcome, str]:
        length = fetch.store.chunks.span(fetch.chunk)[1]
        if said != length:
            raise BadRecord(f"{fetch.host} has {said} bytes for chunk {fetch.chunk}, which has {length}")
        fetch.moved(0)
        writer = fetch.store.begin(fetch.chunk)
        try:
            while fetch.received < length:
                piece = buffer[: min(self._limits.piece(fetch.epoch), len(buffer), length - fetch.received)]
                self._limits.wait(fetch.epoch, len(piece))
                self._fill(piece, fetch, source)
                writer.write(piece)
            if not writer.finish():
                raise BadRecord(f"chunk {fetch.chunk} from {fetch.host} does not have its hash")
            return Outcome.verified, ""
        finally:
            writer.close()

    def _fill(self, piece: memoryview, fetch: Fetch, source: Source) -> None:
        while piece:
            count = source.recv_into(piece)
            if not count:
                raise ConnectionResetError("the source closed in the middle of a chunk")
            fetch.moved(count)
            piece = piece[count:]
