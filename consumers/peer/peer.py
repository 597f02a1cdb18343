"""A peer: takes part in the casts that name this host, receives their files, and hands their chunks on.

One thread, the scheduler, owns all that is decided; everything else (links, fetches, uploads, the log's readers, the
disk) works in threads of its own and puts what happened into the scheduler's queue.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

from headwater.connectors.kafka.client import Kafka
from headwater.consumers.peer.bytes.fetch import Fetch, Fetched
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.serve import Served
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.bytes.wire import Identity
from headwater.consumers.peer.casts import Casts
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.disk import Disk
from headwater.consumers.peer.links import frames
from headwater.consumers.peer.links.links import LinkDown, LinkUp, Said, Stood, Unreachable
from headwater.consumers.peer.log import Log, Read
from headwater.consumers.peer.membership import Membership
from headwater.consumers.peer.presence import Calls, Presence, advertised
from headwater.consumers.peer.racks import rack_of
from headwater.consumers.peer.status import CastStatus, status_of
from headwater.consumers.peer.swarm.actions import Tell
from headwater.consumers.peer.swarm.others import Who
from headwater.consumers.peer.tells import Tells
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastAvailability, CastManifest, CastMember, CastRack, MemberState
from headwater.schemas.records import Record

log = logs.logger()

Result = TypeVar("Result")

_TICK_SECONDS = 0.05
"""How often late requests and lost chunks are looked for, while there is a cast."""
_IDLE_SECONDS = 0.5


class Peer:
    """Runs while its block does.

    ``into``: the folder in which files appear; None: it receives nothing. ``only``: the one cast, by name, that it
    takes part in. ``seeds``: by epoch the files that it is the origin of; ``config.host`` is then their manifests'
    ``origin``.
    Raises BadSettings, or Refused where the port or the folder cannot be had.
    """

    def __init__(
        self,
        config: PeerConfig,
        kafka: Kafka,
        *,
        into: Path | None = None,
        only: str | None = None,
        seeds: Mapping[int, SeedFile] | None = None,
    ) -> None:
        self.config = config
        self.rack = rack_of(config)
        self.failure: Exception | None = None
        self._folder = CastFolder(into) if into is not None else None
        self._random = Random(os.urandom(8))
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._tells = Tells()
        self._mates: frozenset[str] = frozenset()
        self._disk = Disk(self._queue.put)
        self._calls = Calls(
            stores=self._store,
            rack_mate=None if seeds else lambda host: host in self._mates,
            on_event=self._queue.put,
        )
        address = advertised(config, kafka.config.bootstrap_servers)
        self._presence = Presence(config, Identity(config.host, time.time_ns()), self._calls, config.port)
        self._log = Log(kafka, self.rack, self._queue.put)
        me = CastMember(
            host=config.host,
            incarnation=self._presence.identity.incarnation,
            rack=self.rack,
            address=f"{address}:{self._presence.uploads.port}",
            state=MemberState.joined,
            only=only,
            said_by=config.host,
            reason="",
            at_us=0,
        )
        self._membership = Membership(me, self._log, self._random.random)
        self._casts = Casts(self, self._membership, seeds or {}, self._random.random, receives=into is not None)
        self._newest: dict[str, Manifest] = {}
        self._catching_up = {"manifests", "members"}
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def __enter__(self) -> Peer:
        self._presence.start()
        self._log.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(self._end)
        self._thread.join()
        self._presence.close()
        self._disk.close()
        self._log.close()
        if self._folder is not None:
            self._folder.close()

    # For others

    @property
    def trouble(self) -> str:
        """What a person should know: why the log is not read; empty where it is."""
        return self._log.trouble

    @property
    def ready(self) -> bool:
        """It has read the log, and takes part."""
        return not self._catching_up

    def casts(self) -> list[CastStatus]:
        """The casts that it receives or received, the oldest first. From any thread."""
        return [status_of(download) for _, download in sorted(self._casts.downloads.copy().items())]

    def newest(self, name: str) -> Manifest | None:
        """The newest cast of a name that the log tells of, whether this host takes part in it or not."""
        return self._newest.get(name)

    def is_named_by(self, manifest: Manifest) -> bool:
        """Shall this host have the cast's file? Then it takes part, as soon as its scheduler came to it."""
        return self._membership.named(manifest)

    # The scheduler

    def _run(self) -> None:
        try:
            self._membership.join()
            self._loop()
        except Exception as error:
            log.error("peer.failed", error=str(error), exc_info=not isinstance(error, HeadwaterError))
            self.failure = error

    def _loop(self) -> None:
        second = now = time.monotonic()
        while not self._ending:
            events = self._events(self._patience(now))
            now = time.monotonic()
            for event in events:
                self._take(event, now)
            self._casts.act(self._presence, now)
            self._tell(now)
            if now - second >= 1.0:
                second = now
                self._each_second(now)

    def _patience(self, now: float) -> float:
        if self._tells.due_at is not None:
            return max(0.0, self._tells.due_at - now)
        return _TICK_SECONDS if self._casts.active else _IDLE_SECONDS

    def _events(self, patience: float) -> list[object]:
        """All that wait; or the first that comes within so long."""
        events = []
        try:
            events.append(self._queue.get(timeout=patience))
            while True:
                events.append(self._queue.get_nowait())
        except queue.Empty:
            return events

    def _take(self, event: object, now: float) -> None:
        match event:
            case Said(who, frame):
                self._casts.said(who, frame, now)
            case Fetched():
                self._casts.ended(event, now)
            case Served():
                metrics.PEER_SENT_BYTES.inc(event.bytes)
                self._casts.served(event)
            case LinkUp(who):
                self._membership.found(who)
                self._casts.back(who, now)
                if self._folder is not None:  # an origin makes offers
                    self._send_bits(who)
            case LinkDown(who, silent):
                if silent or who[0] in self._mates:
                    self._lose(who, now)
            case Stood():
                self._begin_anew(now)
            case Unreachable(who, _):
                self._lose(who, now)
            case Read(entries, caught_up):
                self._read(entries, caught_up, now)
            case _ if callable(event):
                event()

    def _read(self, entries: tuple[tuple[Record, int, int], ...], caught_up: str | None, now: float) -> None:
        members = [(record, at, offset) for record, at, offset in entries if isinstance(record, CastMember)]
        if self._membership.read(members):
            mates = self._membership.rack_mates() if self._folder is not None else {}
            self._mates = frozenset(mates)
            self._presence.links.want(mates)
            self._casts.place(now)
            self._cap()
        for record, partition, _ in entries:
            if isinstance(record, CastManifest):
                self._casts.read(record, now)
                self._cap()
                if (newest := self._casts.manifests.newest(record.name)) is not None:
                    self._newest[record.name] = newest
            elif isinstance(record, CastAvailability):
                self._casts.available(record, partition, now)
            elif isinstance(record, CastRack):
                self._casts.summary(record, now)
        if caught_up is not None and self._catching_up:
            self._catching_up.discard(caught_up)
            if not self._catching_up:
                self._casts.begin(now)
                self._cap()

    def _lose(self, who: Who, now: float) -> None:
        self._casts.gone(who, now)
        self._membership.missed(who, now)
        self._presence.fetches.forget(who[0])

    def _each_second(self, now: float) -> None:
        self._casts.each_second(self._log.say_availability, now)
        self._membership.say_missed(now)
        self._log.pump()
        metrics.PEER_UPLOADS.set(self._presence.uploads.busy)
        metrics.PEER_LINKS.set(self._presence.links.count)

    def _begin_anew(self, now: float) -> None:
        """It stood still: others have given it up, and what it believes of them is old."""
        incarnation = max(time.time_ns(), self._membership.me.incarnation + 1)
        log.warning("peer.stood", host=self.config.host, incarnation=incarnation)
        metrics.PEER_INCARNATIONS.inc()
        address, _, port = self._membership.me.address.rpartition(":")
        self._presence.close()
        self._presence = Presence(self.config, Identity(self.config.host, incarnation), self._calls, int(port))
        self._presence.start()
        self._presence.links.want(self._membership.rack_mates())
        self._membership.begin_anew(incarnation, f"{address}:{port}")
        self._casts.begin_anew(now)

    def _end(self) -> None:
        self._ending = True
        self._casts.close()
        self._membership.leave("it was stopped")

    # What casts ask for

    @property
    def who(self) -> Who:
        return self._membership.who

    @property
    def folder(self) -> CastFolder:
        assert self._folder is not None, "a peer without a folder receives nothing"
        return self._folder

    def address(self, who: Who) -> str | None:
        return self._membership.address(who)

    def submit(self, fetch: Fetch) -> None:
        self._presence.fetches.submit(fetch)

    def tell(self, epoch: int, tell: Tell) -> None:
        self._tells.add(epoch, tell, time.monotonic())

    def say(self, record: Record) -> None:
        self._log.say(record)

    def on_disk(self, work: Callable[[], Result], then: Callable[[Result | Exception], None]) -> None:
        self._disk.do(work, then)

    def announce(self, epoch: int) -> None:
        for host in self._mates:
            mate = self._membership.view.hosts[host]
            self._send_bits((host, mate.incarnation), epoch)

    def introduce(self, epoch: int, who: Who) -> None:
        self._send_bits(who, epoch)

    def release(self, epoch: int) -> None:
        self._casts.release(epoch)

    # The smallest steps

    def _store(self, epoch: int) -> ChunkStore | None:
        return self._casts.store(epoch)

    def _tell(self, now: float) -> None:
        for host, data in self._tells.take(now):
            if (placed := self._membership.view.hosts.get(host)) is not None:
                self._presence.links.send(host, placed.incarnation, placed.address, data)

    def _cap(self) -> None:
        for epoch in self._casts.live():
            self._presence.cap(epoch, self._casts.limit(epoch))

    def _send_bits(self, who: Who, epoch: int | None = None) -> None:
        address = self._membership.address(who) or ""
        for cast, bits in self._casts.bits(who[0]):
            if epoch is None or cast == epoch:
                self._presence.links.send(*who, address, frames.all_bits(cast, bits))
