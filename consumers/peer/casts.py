"""The casts that a peer takes part in, and which of them each word is about.

Of the scheduler's thread only, but for ``store``. Words about a cast that is not begun yet, or of a host that the log
has not named yet, are kept for a while: links are faster than the log.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from headwater.consumers.peer.bytes.fetch import Fetched
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.serve import Served
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.download import Download
from headwater.consumers.peer.links import frames
from headwater.consumers.peer.membership import Membership
from headwater.consumers.peer.origination import Origination
from headwater.consumers.peer.presence import Presence
from headwater.consumers.peer.surroundings import Surroundings
from headwater.consumers.peer.swarm.others import Who
from headwater.observe import logs
from headwater.rules.cast.bitmap import Bits, unpack
from headwater.rules.cast.fallback import ORIGIN_SLOTS
from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import Manifest, Manifests
from headwater.schemas.cast_records import CastAvailability, CastManifest, CastRack, ManifestKind

log = logs.logger()

_FORGET_US = 600_000_000
"""So long after its expiry a cast can still be asked about."""
_EARLY = 2_000
"""Words that are kept for later, at most."""


class Casts:
    """``seeds``: by epoch the files that this peer is the origin of. ``receives``: it takes in the files of others."""

    def __init__(
        self,
        peer: Surroundings,
        membership: Membership,
        seeds: Mapping[int, SeedFile],
        chance: Callable[[], float],
        *,
        receives: bool,
    ) -> None:
        self.manifests = Manifests()
        self.downloads: dict[int, Download] = {}
        self.originations: dict[int, Origination] = {}
        self._peer, self._membership, self._seeds, self._chance = peer, membership, seeds, chance
        self._receives = receives
        self._begun = False
        self._seen: set[int] = set()
        self._contradicted: dict[int, str] = {}
        """Casts whose seal does not fit what was said before: why."""
        self._slow: dict[int, dict[str, tuple[str, ...]]] = {}
        self._early: deque[tuple[Who, frames.Frame]] = deque(maxlen=_EARLY)

    def store(self, epoch: int) -> ChunkStore | None:
        """What is served of a cast. From any thread."""
        if (origination := self.originations.get(epoch)) is not None:
            return origination.store
        download = self.downloads.get(epoch)
        return None if download is None else download.store

    @property
    def active(self) -> bool:
        """Something is received or handed out."""
        return bool(self.originations) or any(one.active for one in self.downloads.values())

    # The log

    def begin(self, now: float) -> None:
        """All that the log held was read: take part from now on."""
        self._begun = True
        for manifest in [*self.manifests.by_epoch.values()]:
            self._consider(manifest, now)

    def read(self, record: CastManifest, now: float) -> None:
        """A manifest says more."""
        try:
            manifest = self.manifests.take(record)
        except BadRecord as error:
            log.warning("cast.manifest", epoch=record.epoch, error=error.happened)
            if record.kind is ManifestKind.sealed:
                self._contradicted[record.epoch] = error.happened
                if (download := self.downloads.get(record.epoch)) is not None:
                    download.fail(error.happened)
            return
        if record.epoch in self.downloads:
            self.downloads[record.epoch].learn(manifest)
        elif record.epoch in self.originations:
            self.originations[record.epoch].learn(manifest)
        elif self._begun:
            self._consider(manifest, now)

    def _consider(self, manifest: Manifest, now: float) -> None:
        """Take part in it, if it is for this host, and leave what it replaces."""
        epoch, newest = manifest.epoch, self.manifests.newest(manifest.name)
        if epoch in self._seen or manifest.ended or manifest.expired(time.time_ns() // 1_000) or newest is not manifest:
            return
        if epoch in self._seeds:
            self.originations[epoch] = Origination(manifest, self._seeds[epoch], self._peer)
            self.originations[epoch].learn(manifest)
        elif self._receives and self._membership.named(manifest):
            for older in [*self.downloads.values()]:
                if older.manifest.name == manifest.name:
                    older.fail(f"cast {epoch} of the same name replaces it")
            self.downloads[epoch] = Download(manifest, self._peer, self._chance)
            if epoch in self._contradicted:
                self.downloads[epoch].fail(self._contradicted[epoch])
        else:
            return
        self._seen.add(epoch)
        log.info("cast.begun", cast=manifest.name, epoch=epoch, file=manifest.file_name, size=manifest.chunks.size)
        self._place_in(epoch, now)

    def available(self, record: CastAvailability, partition: int, now: float) -> None:
        """What a rack-mate has, by way of the log."""
        host = self._membership.view.numbered(partition, record.number)
        download = self.downloads.get(record.epoch)
        if download is None or host is None or host.incarnation != record.incarnation:
            return
        if (bits := _bits(record.bits, download)) is not None:
            download.swarm.holds((host.name, host.incarnation), bits, now)

    def summary(self, record: CastRack, now: float) -> None:
        """What a rack has together, and who in it is slow."""
        download = self.downloads.get(record.epoch)
        if download is not None and (bits := _bits(record.bits, download)) is not None:
            download.swarm.summary(record.rack, bits)
        if record.epoch in self.downloads or record.epoch in self.originations:
            slow = self._slow.setdefault(record.epoch, {})
            if slow.get(record.rack, ()) != record.slow:
                slow[record.rack] = record.slow
                self._place_in(record.epoch, now)

    # The other peers

    def place(self, now: float) -> None:
        """Who takes part changed."""
        for epoch in [*self.downloads, *self.originations]:
            self._place_in(epoch, now)

    def _place_in(self, epoch: int, now: float) -> None:
        slow = frozenset(host for hosts in self._slow.get(epoch, {}).values() for host in hosts)
        if (origination := self.originations.get(epoch)) is not None:
            origination.place(self._membership.cast(origination.manifest), slow)
        elif (download := self.downloads.get(epoch)) is not None:
            known = {mate.who for mate in download.swarm.others.mates}
            download.place(self._membership.cast(download.manifest), slow, now)
            for mate in download.swarm.others.mates:
                if mate.who not in known:
                    self._peer.introduce(epoch, mate.who)
            early, self._early = self._early, deque(maxlen=_EARLY)
            for who, frame in early:
                self.said(who, frame, now)

    def said(self, who: Who, frame: frames.Frame, now: float) -> None:
        """A word of another peer."""
        if isinstance(frame, frames.Ping) or frame.epoch in self.originations:
            return
        download = self.downloads.get(frame.epoch)
        if download is None or download.swarm.others.find(who) is None:
            if frame.epoch not in self._seen or download is not None:
                self._early.append((who, frame))
        elif isinstance(frame, frames.Have):
            take = download.swarm.coming if frame.coming else download.swarm.told
            take(who, frame.chunks, now)
        elif (bits := _bits(frame.packed, download)) is not None:
            download.swarm.holds(who, bits, now, anew=True)

    def gone(self, who: Who, now: float) -> None:
        for download in self.downloads.values():
            download.swarm.gone(who, now)
        for origination in self.originations.values():
            origination.gone(who)

    def back(self, who: Who, now: float) -> None:
        for download in self.downloads.values():
            download.swarm.back(who, now)

    def bits(self, host: str) -> Iterable[tuple[int, Bits]]:
        """Of each cast that a host takes part in what this peer has; as an origin, what it handed out."""
        for epoch, origination in self.originations.items():
            if origination.store is not None and origination.bits.any():
                yield epoch, origination.bits
        for epoch, download in self.downloads.items():
            if host in download.swarm.others.by_host and (bits := download.bits) is not None and bits.any():
                yield epoch, bits

    def live(self) -> list[int]:
        """The casts of which something is received or served."""
        return [*self.originations, *(epoch for epoch, one in self.downloads.items() if one.active)]

    def limit(self, epoch: int) -> int | None:
        """The most bytes per second of a cast that this host sends, and that it receives: its own limit, or its share
        of the rack's. None: no limit."""
        manifest, me = self.manifests.by_epoch.get(epoch), self._membership.me
        if manifest is None or (epoch not in self.downloads and epoch not in self.originations):
            return None
        shares = [manifest.limits.of_host(me.host)]
        if (rack := manifest.limits.racks.get(me.rack)) is not None:
            shares.append(max(1, rack // (len(self._membership.rack_mates()) + 1)))
        return min((share for share in shares if share is not None), default=None)

    # What happened, and what is to be done

    def ended(self, fetched: Fetched, now: float) -> None:
        if (download := self.downloads.get(fetched.fetch.epoch)) is not None:
            download.ended(fetched, now)

    def served(self, served: Served) -> None:
        if (origination := self.originations.get(served.epoch)) is not None:
            origination.served(served)
        elif served.torn and (download := self.downloads.get(served.epoch)) is not None:
            download.fail(served.torn)

    def act(self, presence: Presence, now: float) -> None:
        for download in [*self.downloads.values()]:
            download.act(now)
        for epoch, origination in self.originations.items():
            slots = presence.sent.slots(epoch, origination.manifest.chunks.chunk_bytes)
            origination.act(presence.uploads.sending(epoch), ORIGIN_SLOTS if slots is None else slots, now)

    def each_second(self, say: Callable[[CastAvailability], bool], now: float) -> None:
        for download in [*self.downloads.values()]:
            if (record := download.each_second(now, self._membership.number)) is not None:
                say(record)
        for epoch, manifest in [*self.manifests.by_epoch.items()]:
            if manifest.expired(time.time_ns() // 1_000 - _FORGET_US) and epoch not in self.originations:
                if epoch in self.downloads and self.downloads[epoch].active:
                    continue
                self.downloads.pop(epoch, None)
                self._contradicted.pop(epoch, None)
                self.manifests.forget(epoch)

    def begin_anew(self, now: float) -> None:
        """This peer's next incarnation begins."""
        for download in self.downloads.values():
            download.begin_anew(now)
        for origination in self.originations.values():
            origination.begin_anew()
        self.place(now)

    def release(self, epoch: int) -> None:
        """The cast is over for this peer."""
        self._slow.pop(epoch, None)

    def close(self) -> None:
        for download in [*self.downloads.values()]:
            download.close()


def _bits(packed: bytes, download: Download) -> Bits | None:
    try:
        return unpack(packed, download.manifest.chunks.count)
    except BadRecord as error:
        log.warning("cast.bits", epoch=download.manifest.epoch, error=error.happened)
        return None
