"""What has crossed the links, by the kernel's own counters of the token buckets: no peer is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.layout import HEADER_BYTES
from fleet.network import Network, run


@dataclass(frozen=True, slots=True)
class Crossed:
    """``frame_bytes`` as the bucket counted them against its rate; ``payload_bytes`` without every frame's headers: an
    acknowledgement has none. What was sent twice counts twice."""

    frame_bytes: int
    packets: int
    dropped: int

    @property
    def payload_bytes(self) -> int:
        return self.frame_bytes - HEADER_BYTES * self.packets

    def __sub__(self, earlier: Crossed) -> Crossed:
        return Crossed(
            self.frame_bytes - earlier.frame_bytes, self.packets - earlier.packets, self.dropped - earlier.dropped
        )


def crossed(network: Network) -> Mapping[str, Crossed]:
    """By link: NAME is towards the host of that name, RACK-up out of the rack, RACK-down into it."""
    told = json.loads(run(["tc", "-n", network.core, "-s", "-j", "qdisc", "show"]))
    return {entry["dev"]: _crossed(entry) for entry in told if entry["kind"] == "tbf"}


def sent(network: Network, name: str) -> Crossed:
    """What the host of that name sent."""
    told = json.loads(run(["tc", "-n", f"{network.claim.prefix}{name}", "-s", "-j", "qdisc", "show", "dev", "eth0"]))
    return next(_crossed(entry) for entry in told if entry["kind"] == "tbf")


def _crossed(entry: Mapping[str, int]) -> Crossed:
    return Crossed(entry["bytes"], entry["packets"], entry["drops"])
