"""One cast as its origin serves it: a file that is here already, handed out chunk by chunk as their hashes appear."""

from __future__ import annotations

import numpy as np

from headwater.consumers.peer import words
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.serve import Served
from headwater.consumers.peer.surroundings import Surroundings
from headwater.consumers.peer.swarm.actions import Note
from headwater.consumers.peer.swarm.offers import Offers
from headwater.consumers.peer.swarm.others import Who
from headwater.observe import logs
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.chunks import HASH_BYTES
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastEventKind

log = logs.logger()


class Origination:
    """Of the scheduler's thread only."""

    def __init__(self, manifest: Manifest, store: SeedFile, peer: Surroundings) -> None:
        self.manifest = manifest
        self.store: SeedFile | None = store
        self.served_bytes = 0
        self.torn = ""
        self._peer = peer
        self._learned = 0
        self._offers = Offers(manifest.epoch, peer.who)

    def learn(self, manifest: Manifest) -> None:
        """The manifest says more."""
        self.manifest = manifest
        if manifest.ended:
            self.store = None
            return
        if self.store is not None and manifest.hashed > self._learned:
            self.store.learn(self._learned, manifest.hashes[self._learned * HASH_BYTES :])
            self._learned = manifest.hashed
            self._offers.hashed(self._learned)

    def begin_anew(self) -> None:
        """What was offered before may be lost: who lacks it asks."""
        handed_out = self._offers.handed_out
        self._offers = Offers(self.manifest.epoch, self._peer.who, handed_out)
        self._offers.hashed(self._learned)

    @property
    def bits(self) -> Bits:
        """The chunks that were handed out: who comes to a rack that has none of them may ask for them at once."""
        return np.arange(self.manifest.chunks.count) < self._offers.handed_out

    def place(self, hosts: list[tuple[str, int, str]], slow: frozenset[str]) -> None:
        """Who takes part changed. Racks that come late are told what they missed."""
        before = self._offers.racks()
        self._offers.place(hosts, slow)
        if self._offers.handed_out:
            late = [(host, incarnation) for host, incarnation, rack in hosts if rack not in before]
            for who in late:
                if who != self._peer.who:
                    self._peer.introduce(self.manifest.epoch, who)

    def gone(self, who: Who) -> None:
        self._offers.gone(who)

    def served(self, served: Served) -> None:
        """An upload ended."""
        self.served_bytes += served.bytes
        self._offers.served(served.chunk, served.seconds, whole=served.whole)
        if served.torn and not self.torn:
            self.torn = served.torn
            self._say_torn(served)

    def act(self, sending: frozenset[int], slots: int, now: float) -> None:
        """Offers what can be taken now; ``sending`` and ``slots`` as ``Offers.act`` says."""
        if self.store is not None and not self.torn:
            for tell in self._offers.act(sending, slots, now):
                self._peer.tell(self.manifest.epoch, tell)

    def _say_torn(self, served: Served) -> None:
        log.error("cast.torn", cast=self.manifest.name, epoch=self.manifest.epoch, reason=served.torn)
        note = Note(CastEventKind.source_changed, served.torn, None, (served.chunk,))
        self._peer.say(words.event(self._peer, self.manifest.epoch, note))
