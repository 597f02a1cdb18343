"""One cast as a peer receives it and then serves it: from its announcement to its release.

    opening ─► receiving ─► complete ─► installed ─► (released: the rack has it, or the cast expired)
       │           │            │
       └───────────┴────────────┴─► failed: refused, aborted, replaced, expired; what was not installed is removed

Of the scheduler's thread only; the disk is waited for in another. A restart finds what an earlier run left, hashes it
anew, and asks for nothing that is proven so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from headwater.consumers.peer import words
from headwater.consumers.peer.availability import Availability
from headwater.consumers.peer.bytes.fetch import COPY, Fetch, Fetched, Outcome
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.seed import InstalledFile
from headwater.consumers.peer.opening import open_store
from headwater.consumers.peer.surroundings import Surroundings
from headwater.consumers.peer.swarm.actions import Ask, Flight, GiveUp, Note, Tell
from headwater.consumers.peer.swarm.swarm import Swarm
from headwater.observe import logs, metrics
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import HASH_BYTES
from headwater.rules.errors import HeadwaterError, NoSpace, Refused
from headwater.schemas.cast_manifest import Manifest, ManifestState
from headwater.schemas.cast_records import CastAvailability, CastEventKind, CastState

log = logs.logger()


class Phase(StrEnum):
    opening = "opening"
    receiving = "receiving"
    complete = "complete"
    installed = "installed"
    failed = "failed"


class Download:
    """``manifest`` is what is known of the cast when the peer begins with it."""

    def __init__(self, manifest: Manifest, peer: Surroundings, chance: Callable[[], float]) -> None:
        self.manifest = manifest
        self.phase = Phase.opening
        self.reason = ""
        self.store: PartialFile | InstalledFile | None = None
        self.received_bytes = self.outside_bytes = 0
        self.installing = False
        """The file is whole and right, and is being put under its name."""
        self._peer, self._chance = peer, chance
        self._began = time.monotonic()
        self._fetches: dict[Fetch, Flight] = {}
        self._learned = 0
        self._said_bytes = 0
        self._rack_has_it_since: float | None = None
        self.begin_anew(self._began)
        peer.on_disk(lambda: open_store(manifest, peer.folder, peer.config), self._opened)

    @property
    def path(self) -> Path:
        """Where the file appears."""
        return self._peer.folder.path / self.manifest.file_name

    @property
    def had(self) -> int:
        """Chunks that are here."""
        return int(self.swarm.had.sum())

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    @property
    def bits(self) -> Bits | None:
        """What others may ask for; None: nothing."""
        return self.swarm.had if self.store is not None else None

    @property
    def active(self) -> bool:
        """It is received, or served on."""
        return self.store is not None or self.phase is Phase.opening

    # What others are and say

    def begin_anew(self, now: float) -> None:
        """Of an incarnation of this peer that has just begun, nobody knows anything, and it knows of nobody."""
        chunks, me = self.manifest.chunks, self._peer.who
        self._fetches.clear()
        self._availability = Availability(self.manifest.epoch, me[1], chunks.count)
        self.swarm = Swarm(
            self.manifest.epoch,
            me,
            self._peer.rack,
            self.manifest.origin,
            chunks.count,
            slots=self._peer.config.fetches,
            chance=self._chance,
            now=now,
        )
        if self.store is not None:
            self._restore(self.store)

    def learn(self, manifest: Manifest) -> None:
        """The manifest says more."""
        self.manifest = manifest
        if manifest.ended:
            self.fail(f"the cast was {manifest.state}: {manifest.reason or 'no reason was given'}")
            return
        if manifest.url is not None:
            self.swarm.copied()
        self._learn_hashes()
        self._install_if_whole()

    def place(self, hosts: list[tuple[str, int, str]], slow: frozenset[str], now: float) -> None:
        self.swarm.place(hosts, slow, now)

    def ended(self, fetched: Fetched, now: float) -> None:
        """A fetch ended."""
        flight = self._fetches.pop(fetched.fetch, None)
        if flight is None:  # of an incarnation before
            return
        self.received_bytes += fetched.bytes
        if flight.outside:
            self.outside_bytes += fetched.bytes
        metrics.PEER_FETCHES.labels(fetched.outcome).inc()
        metrics.PEER_RECEIVED_BYTES.labels("outside" if flight.outside else "rack").inc(fetched.bytes)
        self.swarm.ended(flight, fetched.outcome, fetched.seconds, fetched.reason, now)
        if fetched.outcome is Outcome.no_space:
            self.fail(fetched.reason or "the disk is full", CastState.refused)
        elif fetched.outcome is Outcome.verified:
            self._install_if_whole()

    # What is to be done

    def act(self, now: float) -> None:
        """Everything that is to be done now."""
        if self.store is None:
            return
        for fetch, flight in self._fetches.items():
            flight.progress, flight.received = fetch.last_progress, fetch.received
        for action in self.swarm.act(now):
            match action:
                case Ask(flight):
                    self._fetch(flight, now)
                case GiveUp(flight):
                    self._cancel(flight)
                case Tell():
                    self._peer.tell(self.manifest.epoch, action)
                case Note():
                    self._note(action)

    def each_second(self, now: float, number: int | None) -> CastAvailability | None:
        """Its end by expiry or because nobody needs it; else what is to be said of its chunks."""
        waits = self.phase in (Phase.opening, Phase.receiving, Phase.complete) and not self.installing
        if waits and self.manifest.expired(time.time_ns() // 1_000):
            self._expire()
            return None
        if self.phase is Phase.installed:
            self._release_when_served(now)
        if self.store is None or number is None or self.phase is Phase.installed:
            return None
        rate, self._said_bytes = self.received_bytes - self._said_bytes, self.received_bytes
        return self._availability.next(number, self.swarm.had, rate)

    def fail(self, reason: str, state: CastState = CastState.failed) -> None:
        """The file will not come. What was installed stays, and is not served any more."""
        if self.phase is Phase.failed:
            return
        if self.phase is not Phase.installed:
            self.phase, self.reason = Phase.failed, reason
            log.warning("cast.failed", cast=self.manifest.name, epoch=self.manifest.epoch, reason=reason)
            self._progress(state, reason)
        self._close(lambda store: store.discard())

    def close(self) -> None:
        """The peer ends: what is here is kept for its next run."""
        if self.phase is not Phase.failed and self.store is not None:
            self._progress(CastState.left, "the peer ends")
        self._close(lambda store: store.close())

    # On the disk

    def _opened(self, store: PartialFile | InstalledFile | Exception | None) -> None:
        if isinstance(store, Exception):
            refused = CastState.refused if isinstance(store, NoSpace | Refused) else CastState.failed
            self.fail(store.happened if isinstance(store, HeadwaterError) else str(store), refused)
        elif self.phase is Phase.failed:  # meanwhile
            if store is not None:
                store.discard()
        elif store is None:
            self.phase = Phase.installed
            self._progress(CastState.installed)
            self._peer.release(self.manifest.epoch)
        else:
            is_new = isinstance(store, PartialFile)
            self.store, self.phase = store, Phase.receiving if is_new else Phase.installed
            self._restore(store)
            begun = CastState.resumed if self.had else CastState.started
            self._progress(begun if is_new else CastState.installed)
            self._peer.announce(self.manifest.epoch)
            self.learn(self.manifest)

    def _restore(self, store: PartialFile | InstalledFile) -> None:
        for chunk in store.had().nonzero()[0].tolist():
            self.swarm.restore(chunk)
        self._learned = 0
        self._learn_hashes()

    def _learn_hashes(self) -> None:
        if self.store is not None and self.manifest.hashed > self._learned:
            self.store.learn(self._learned, self.manifest.hashes[self._learned * HASH_BYTES :])
            self._learned = self.manifest.hashed
            self.swarm.hashed(self._learned)

    def _install_if_whole(self) -> None:
        if self.phase is Phase.receiving and self.swarm.complete:
            self.phase = Phase.complete
            self._progress(CastState.complete)
        sealed = self.manifest.state is ManifestState.sealed
        if self.phase is Phase.complete and sealed and isinstance(self.store, PartialFile) and not self.installing:
            store, root = self.store, self.manifest.root or b""
            self.installing = True
            self._peer.on_disk(lambda: store.install(root), self._is_installed)

    def _is_installed(self, ended: Exception | None) -> None:
        self.installing = False
        if self.phase is Phase.failed:  # meanwhile: the file is there, and stays
            return
        if ended is None:
            self.phase = Phase.installed
            log.info("cast.installed", cast=self.manifest.name, epoch=self.manifest.epoch, path=str(self.path))
            self._progress(CastState.installed)
            return
        self.fail(ended.happened if isinstance(ended, HeadwaterError) else str(ended))

    def _close(self, ending: Callable[[PartialFile | InstalledFile], None]) -> None:
        """No fetch may be under way when the store closes."""
        for fetch in self._fetches:
            fetch.cancel()
        self._fetches.clear()
        if self.store is not None:
            store, self.store = self.store, None
            self._peer.on_disk(lambda: ending(store), lambda _: None)
        self._peer.release(self.manifest.epoch)

    # The smallest steps

    def _fetch(self, flight: Flight, now: float) -> None:
        host, incarnation = flight.source
        address = self.manifest.url if host == COPY else self._peer.address(flight.source)
        if address is None or self.store is None:
            self.swarm.ended(flight, Outcome.refused, 0.0, "its address is not known", now)
            return
        fetch = Fetch(self.manifest.epoch, flight.chunk, host, incarnation, address, self.store)
        self._fetches[fetch] = flight
        self._peer.submit(fetch)

    def _cancel(self, flight: Flight) -> None:
        for fetch, other in self._fetches.items():
            if other is flight:
                fetch.cancel()

    def _expire(self) -> None:
        missing = tuple(self.swarm.missing()[:100])
        self._note(Note(CastEventKind.missing, f"the cast expired; {len(missing)} chunks are missing", None, missing))
        self.fail("the cast expired before the file was whole")

    def _release_when_served(self, now: float) -> None:
        if not self.swarm.rack_complete:
            self._rack_has_it_since = None
        elif self._rack_has_it_since is None:
            self._rack_has_it_since = now
        seeded = self._rack_has_it_since is not None and now - self._rack_has_it_since >= self._peer.config.seed_seconds
        if seeded or self.manifest.expired(time.time_ns() // 1_000):
            self._close(lambda store: store.close())

    def _progress(self, state: CastState, reason: str = "") -> None:
        whole = state in (CastState.complete, CastState.installed)
        self._peer.say(
            words.progress(
                self._peer,
                self.manifest,
                state,
                chunks=self.manifest.chunks.count if whole else self.had,
                received_bytes=self.received_bytes,
                outside_bytes=self.outside_bytes,
                seconds=self.seconds,
                reason=reason,
            )
        )

    def _note(self, note: Note) -> None:
        log.warning("cast.noted", cast=self.manifest.name, kind=note.kind, reason=note.reason)
        metrics.PEER_EVENTS.labels(note.kind).inc()
        self._peer.say(words.event(self._peer, self.manifest.epoch, note))
