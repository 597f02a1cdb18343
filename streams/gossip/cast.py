"""What the peers of one cast said, folded, and the summary of a rack that follows from it. No I/O, no clock.

Every write is safe to repeat: an availability record counts once, by its incarnation and sequence, and a later one says
no less than an earlier one. Times are the log's, in microseconds since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headwater.rules.cast.bitmap import Bits, pack, unpack
from headwater.rules.cast.stragglers import WINDOW_SECONDS, Pace, slow_hosts
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastAvailability, CastProgress, CastRack, CastState
from headwater.schemas.cast_view import Host, View

SILENT_US = 3_000_000
"""Three words missed. Peers that share a link notice a death within a second; this tells people and other racks."""
_FRESH_US = 2_000_000
"""A rate that was said longer ago is not the present one."""
_WINDOW_US = (WINDOW_SECONDS + 2) * 1_000_000
"""Within so long the reports of the window must have come: a rate over longer gaps is none."""

_DONE = frozenset({CastState.complete, CastState.installed})
_GONE = frozenset({CastState.refused, CastState.failed, CastState.left})


@dataclass(slots=True)
class Word:
    """What a host last said. ``bits`` is None once it has every chunk. ``rates``: when it spoke, bytes a second."""

    incarnation: int
    sequence: int
    heard_us: int
    chunks: int
    bits: Bits | None
    rates: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW_SECONDS))


@dataclass(frozen=True, slots=True)
class RackHosts:
    """The hosts of a rack that a cast names: those that are there, and the names of those that are suspected."""

    partition: int
    live: tuple[Host, ...]
    suspected: tuple[str, ...]


def racks_of(view: View, manifest: Manifest) -> dict[str, RackHosts]:
    """By rack."""
    live: dict[str, list[Host]] = {}
    suspected: dict[str, list[str]] = {}
    partitions: dict[str, int] = {}
    for name, host in sorted(view.hosts.items()):
        if not manifest.names(host) or not (host.live or host.suspected):
            continue
        partitions[host.rack] = host.partition
        if host.live:
            live.setdefault(host.rack, []).append(host)
        else:
            suspected.setdefault(host.rack, []).append(name)
    return {
        rack: RackHosts(partition, tuple(live.get(rack, ())), tuple(suspected.get(rack, ())))
        for rack, partition in partitions.items()
    }


class CastFold:
    """One cast. ``manifest`` may be replaced by a later state of it. Not safe for threads."""

    def __init__(self, manifest: Manifest, announced_us: int) -> None:
        self.manifest = manifest
        self.announced_us = announced_us
        self._words: dict[str, Word] = {}
        self._steps: dict[str, tuple[int, CastState]] = {}
        self._slow: dict[str, frozenset[str]] = {}

    def hear(self, host: Host, said: CastAvailability, at_us: int) -> None:
        """One record of availability, which the log took at ``at_us``. Raises BadRecord where its bits are none."""
        word = self._words.get(host.name)
        if said.incarnation != host.incarnation:
            return
        again = word is not None and word.incarnation == said.incarnation
        if word is not None and again and said.sequence <= word.sequence:
            return
        bits = self._bits(said, word.bits if word is not None and again else np.zeros(self._count, np.bool_))
        if word is None or not again:
            word = self._words[host.name] = Word(said.incarnation, said.sequence, at_us, said.chunks, bits)
        word.sequence, word.heard_us, word.chunks, word.bits = said.sequence, at_us, said.chunks, bits
        word.rates.append((at_us, said.bytes_per_second))

    def step(self, said: CastProgress) -> None:
        """A host's newest step counts, in the order of the log; what it installed stays, whoever says what later."""
        known = self._steps.get(said.host)
        if known is None or (said.incarnation >= known[0] and known[1] is not CastState.installed):
            self._steps[said.host] = said.incarnation, said.state

    def summary(
        self, rack: str, hosts: RackHosts, *, at_us: int, joined_us: Mapping[str, int], number: int
    ) -> CastRack:
        """The rack at a moment. ``joined_us``: when each host joined; ``number``: the view's, for this rack."""
        counts = sorted(self._chunks(host) for host in hosts.live)
        lacking = [host for host in hosts.live if self._chunks(host) < self._count]
        silent = [host.name for host in lacking if self._is_silent(host, at_us, joined_us)]
        slow = slow_hosts(self._paces(lacking, at_us), self.manifest.chunks.chunk_bytes, self._slow_before(rack))
        self._slow[rack] = slow
        return CastRack(
            epoch=self.manifest.epoch,
            rack=rack,
            at_us=at_us,
            view=number,
            hosts=len(hosts.live),
            complete=len(hosts.live) - len(lacking),
            installed=sum(self._state(host) is CastState.installed for host in hosts.live),
            least=counts[0] if counts else 0,
            median=counts[(len(counts) - 1) // 2] if counts else 0,
            most=counts[-1] if counts else 0,
            bits=pack(self._union(hosts.live)),
            bytes_per_second=sum(self._rate(host, at_us) for host in hosts.live),
            slow=tuple(sorted(slow)),
            silent=tuple(sorted([*silent, *hosts.suspected])),
        )

    @property
    def _count(self) -> int:
        return self.manifest.chunks.count

    def _bits(self, said: CastAvailability, known: Bits | None) -> Bits | None:
        came = unpack(said.bits, self._count)
        if said.chunks >= self._count or known is None:
            return None
        # A difference to a record that was not read is true all the same; the next full one says the rest.
        return came if said.base is None else known | came

    def _word(self, host: Host) -> Word | None:
        word = self._words.get(host.name)
        return word if word is not None and word.incarnation == host.incarnation else None

    def _state(self, host: Host) -> CastState | None:
        """An older incarnation's step counts only where it is for good."""
        incarnation, state = self._steps.get(host.name, (0, None))
        return state if incarnation == host.incarnation or state is CastState.installed else None

    def _chunks(self, host: Host) -> int:
        if self._state(host) in _DONE:
            return self._count
        word = self._word(host)
        return 0 if word is None else min(word.chunks, self._count)

    def _union(self, hosts: Iterable[Host]) -> Bits:
        union = np.zeros(self._count, np.bool_)
        for host in hosts:
            word = self._word(host)
            if self._chunks(host) == self._count:
                return np.ones(self._count, np.bool_)
            if word is not None and word.bits is not None:
                union |= word.bits
        return union

    def _is_silent(self, host: Host, at_us: int, joined_us: Mapping[str, int]) -> bool:
        if self._state(host) in _GONE:
            return False
        word = self._word(host)
        heard_us = 0 if word is None else word.heard_us
        return at_us - max(heard_us, self.announced_us, joined_us.get(host.name, 0)) > SILENT_US

    def _rate(self, host: Host, at_us: int) -> int:
        word = self._word(host)
        return word.rates[-1][1] if word is not None and at_us - word.heard_us <= _FRESH_US else 0

    def _paces(self, lacking: Iterable[Host], at_us: int) -> list[Pace]:
        paces = []
        for host in lacking:
            word = self._word(host)
            if word is None or len(word.rates) < WINDOW_SECONDS or at_us - word.rates[0][0] > _WINDOW_US:
                continue
            paces.append(Pace(host.name, sum(rate for _, rate in word.rates), word.chunks))
        return paces

    def _slow_before(self, rack: str) -> frozenset[str]:
        return self._slow.get(rack, frozenset())
