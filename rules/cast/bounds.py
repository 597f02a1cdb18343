"""How fast a broadcast can be at best, whatever the policy: each resource divided by what must pass through it.

The fluid bounds are those of Mundinger, Weber and Weiss (Journal of Scheduling 11, 2008): the origin must send every
byte once, every host must receive every byte, and all uplinks together must carry what all hosts receive. The others
are the same argument for a rack's uplink, for disks and for hashing. Pipeline depth, messages and headers come on top,
so a floor is never quite reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.rules.errors import BadSettings

_HEADERS = 20 + 20 + 12
"""Bytes of IPv4, TCP and TCP's time stamps inside each packet of an MTU."""
_FRAMING = 14 + 4 + 20
"""Bytes around it on the wire: Ethernet header, checksum, preamble and gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One origin outside all racks, and the hosts of the racks, which are equal but for the slow ones.

    Rates are bytes of payload a second in each direction, both at once. A rack's uplink carries what its hosts' links
    carry together, divided by ``oversubscription``. Disks read and write at once; ``disk_bytes_per_second`` is for both
    together. None never limits. Raises BadSettings where there is no such fleet.
    """

    hosts: int
    racks: int
    host_bytes_per_second: float
    origin_bytes_per_second: float
    oversubscription: float = 1.0
    slow_hosts: int = 0
    slow_share: float = 1.0
    disk_read_bytes_per_second: float | None = None
    disk_write_bytes_per_second: float | None = None
    disk_bytes_per_second: float | None = None
    page_cache: bool = True
    hash_bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.racks <= self.hosts:
            raise _no_fleet(f"{self.hosts} hosts do not fill {self.racks} racks.", "Give one host a rack, at least.")
        if not 0 <= self.slow_hosts < self.hosts or not 0 < self.slow_share <= 1:
            raise _no_fleet(
                f"{self.slow_hosts} of {self.hosts} hosts are slow, at {self.slow_share:.0%} of the others' rate.",
                "Let one host be as fast as its link, and the slow ones faster than 0 %.",
            )
        if self.oversubscription < 1:
            raise _no_fleet(f"The oversubscription is {self.oversubscription:g}.", "Give 1 or more: 8 is 8:1.")

    @property
    def smallest_rack(self) -> int:
        return self.hosts // self.racks

    @property
    def uplinks_bytes_per_second(self) -> float:
        """What the origin and all hosts can send together."""
        full = self.hosts - self.slow_hosts + self.slow_hosts * self.slow_share
        return self.origin_bytes_per_second + full * self.host_bytes_per_second


@dataclass(frozen=True, slots=True)
class Bound:
    """No policy is faster than ``seconds``, because of ``resource``; docs/broadcast.md names the letters."""

    resource: str
    formula: str
    seconds: float


def bounds(size: int, fleet: Fleet, copies_per_rack: float = 1.0) -> tuple[Bound, ...]:
    """Every bound for ``size`` bytes to the hosts that are not slow, with so many copies of a chunk entering a rack.

    Without page cache each copy that is sent is read from somebody's disk, the origin's among them.
    """
    healthy = fleet.hosts - fleet.slow_hosts
    rack_rate = fleet.smallest_rack * fleet.host_bytes_per_second / fleet.oversubscription
    found = [
        Bound("origin's uplink", "F / u", size / fleet.origin_bytes_per_second),
        Bound("every host's downlink", "F / d", size / fleet.host_bytes_per_second),
        Bound("all uplinks together", "N F / (u + Σ uᵢ)", healthy * size / fleet.uplinks_bytes_per_second),
        Bound("rack's uplink", "m F o / (H B)", copies_per_rack * size / rack_rate),
    ]
    read = 0.0 if fleet.page_cache else healthy * size / (fleet.hosts + 1)
    for resource, formula, amount, rate in (
        ("disk, written", "F / w", size, fleet.disk_write_bytes_per_second),
        ("disk, read to send again", "N F / ((N+1) r)", read, fleet.disk_read_bytes_per_second),
        ("disk, written and read", "F (1 + N/(N+1)) / b", size + read, fleet.disk_bytes_per_second),
    ):
        if rate is not None and amount:
            found.append(Bound(resource, formula, amount / rate))
    if fleet.hash_bytes_per_second is not None:
        found.append(Bound("hashing at the origin", "F / h", size / fleet.hash_bytes_per_second))
    return tuple(found)


def binding(found: Iterable[Bound]) -> tuple[Bound, ...]:
    """The highest of the bounds; several where they are equal. The first one's seconds are the floor."""
    found = tuple(found)
    floor = max(bound.seconds for bound in found)
    return tuple(bound for bound in found if math.isclose(bound.seconds, floor, rel_tol=1e-9))


def slow_floor(size: int, fleet: Fleet) -> float:
    """Seconds that a slow host needs at least, by its own downlink."""
    return size / (fleet.host_bytes_per_second * fleet.slow_share)


def fluid_floor(size: int, origin_up: float, ups: Sequence[float], downs: Sequence[float]) -> float:
    """Seconds at least to hosts whose links all differ, in bytes a second: max(F/u, F/min d, N F/(u + Σ uᵢ)).

    For infinitely small chunks and without racks it is reached (Kumar and Ross, 2006).
    """
    return max(size / origin_up, size / min(downs), len(downs) * size / (origin_up + math.fsum(ups)))


def goodput_share(mtu: int) -> float:
    """The part of a link's bit rate that TCP's payload gets in full packets of ``mtu`` bytes over Ethernet."""
    return (mtu - _HEADERS) / (mtu + _FRAMING)


def _no_fleet(happened: str, advice: str) -> BadSettings:
    return BadSettings(happened, asked="A fleet was to be looked at.", kept="Nothing was computed.", advice=advice)
