"""What a fleet consists of: racks of hosts, one origin, and the rate of every link. Nothing is made here.

```
  origin ══ core ═╤═ rack 0 ═╤═ host 0-0        ══ a link: its egress at both ends goes through a token bucket
                  │          └─ host 0-1 …
                  └─ rack 1 ═── …               and, unshaped, a management link from every host to this machine
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

MTU = 1500
ETHERNET_BYTES = 14
"""What the kernel counts of a frame beside its packet; the preamble, check sum and gap of a wire are not there."""
SEGMENT_BYTES = MTU - 20 - 32
"""Payload of a full segment: less the headers of IPv4 and of TCP with its time stamps (RFC 791, RFC 9293, RFC 7323)."""
HEADER_BYTES = ETHERNET_BYTES + MTU - SEGMENT_BYTES
GOODPUT_SHARE = SEGMENT_BYTES / (MTU + ETHERNET_BYTES)
"""Of a shaped link's rate, what TCP's payload can have of it: 95.6 %."""

DATA_NETWORK = IPv4Network("10.10.0.0/16")
"""The same in every fleet: it does not leave the fleet's namespaces."""


@dataclass(frozen=True, slots=True)
class Host:
    """``name`` is unique in the fleet; ``rack`` is empty for the origin."""

    name: str
    rack: str
    address: IPv4Address
    number: int


@dataclass(frozen=True, slots=True)
class Layout:
    """``hosts`` in each of ``racks``; NICs of ``nic`` bits/s each way; a rack's uplink has the ``oversubscription``-th
    part of what its hosts could send together."""

    racks: int
    hosts: int
    nic: float
    oversubscription: float

    @property
    def uplink(self) -> float:
        """Bits per second of a rack's link to the core, each way."""
        return self.hosts * self.nic / self.oversubscription

    def rack_names(self) -> list[str]:
        return [f"r{rack}" for rack in range(self.racks)]

    def origin(self) -> Host:
        return Host("origin", "", DATA_NETWORK[1], 1)

    def members(self) -> Iterator[Host]:
        """Every host but the origin, rack by rack."""
        for rack in range(self.racks):
            for position in range(self.hosts):
                number = (rack + 1) * 256 + position + 1
                yield Host(f"h{rack}-{position}", f"r{rack}", DATA_NETWORK[number], number)

    def floor_seconds(self, size: int) -> float:
        """No plan brings ``size`` bytes to every host sooner: the slowest of the links that each byte must cross once,
        the origin's NIC, a rack's downlink and a host's NIC, at the goodput of full segments."""
        narrowest = min(self.nic, self.uplink) if self.racks else self.nic
        return size * 8 / (narrowest * GOODPUT_SHARE)
