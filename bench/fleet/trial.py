"""One cast from the origin of a fleet to all its hosts, disturbed or not, and everything that is measured of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.disks import wrong_bytes
from fleet.layout import Host
from fleet.members import Members
from fleet.network import Network
from fleet.story import CastLog, Story
from fleet.traffic import Crossed, crossed, sent

PATIENCE = 6.0
"""A cast that takes so many times its floor is given up."""


@dataclass(frozen=True, slots=True)
class Trial:
    """``racks``: copies of the file into each, ``origin``: out of it, by the kernel's count of payload. ``resent``: the
    part of what the hosts sent that did not arrive. ``cpu_share``: of this machine, whoever used it."""

    told: Story
    size: int
    seconds: float
    floor_seconds: float
    racks: Mapping[str, float]
    origin: float
    resent: float
    cpu_share: float
    cpu_seconds: float
    wrong_bytes: int

    @property
    def over_floor(self) -> float:
        return self.seconds / self.floor_seconds


class Trials:
    """A fleet whose peers live through all casts."""

    def __init__(self, fleet: Network, members: Members, log: CastLog) -> None:
        self.fleet, self.members, self.log = fleet, members, log

    def start_peers(self) -> None:
        """A peer on each host, all of them members before it returns, and the gossip."""
        self.members.gossip(self.fleet.origin)
        for host in self.fleet.members:
            self.members.peer(host)
        names = {host.name for host in self.fleet.members}
        self.log.wait(lambda: names <= self.log.joined(), 120, "peers that have joined", self._ended(names))

    def cast(
        self,
        file: Path,
        name: str,
        *,
        disturb: Callable[[], None] = lambda: None,
        at_share: float = 0.0,
        apart: Collection[str] = (),
    ) -> Trial:
        """Publish ``file``; ``disturb`` when the hosts have ``at_share`` of it; measured are those not ``apart``.

        Raises Unavailable where one of these does not get it in many times the floor, or its process ends.
        """
        size, floor = file.stat().st_size, self.fleet.layout.floor_seconds(file.stat().st_size)
        hosts = [host for host in self.fleet.members if host.name not in apart]
        names = {host.name for host in hosts}
        busy, used, began = _busy_seconds(), self.members.cpu_seconds(), time.monotonic()
        before, sent_before = crossed(self.fleet), self._sent()
        publisher = self.members.publish(self.fleet.origin, file, name)
        ended = self._ended({*names, publisher})
        share = at_share * size * len(self.fleet.members)
        self.log.wait(lambda: self._received(before) >= share, PATIENCE * floor, f"{at_share:.0%} of {name}", ended)
        disturb()
        ended = self._ended(names)
        self.log.wait(lambda: names <= self._installed(name), PATIENCE * floor, f"{name} on all hosts", ended)
        after, sent_after = crossed(self.fleet), self._sent()
        cpu_share = (_busy_seconds() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
        told = self.log.newest(name)
        assert told is not None
        arrived = sum((after[host.name] - before[host.name]).payload_bytes for host in self.fleet.hosts)
        return Trial(
            told=told,
            size=size,
            seconds=told.seconds(names),
            floor_seconds=floor,
            racks=self._racks(before, after, size),
            origin=(sent_after["origin"] - sent_before["origin"]) / size,
            resent=1 - arrived / max(1, sum(sent_after.values()) - sum(sent_before.values())),
            cpu_share=cpu_share,
            cpu_seconds=self.members.cpu_seconds() - used,
            wrong_bytes=wrong_bytes(file, [self.copy(host, file) for host in hosts]),
        )

    def copy(self, host: Host, file: Path) -> Path:
        return self.members.into(host) / file.name

    def _racks(self, before: Mapping[str, Crossed], after: Mapping[str, Crossed], size: int) -> dict[str, float]:
        links = {rack: f"{rack}-down" for rack in self.fleet.layout.rack_names()}
        return {rack: (after[link] - before[link]).payload_bytes / size for rack, link in links.items()}

    def _sent(self) -> dict[str, int]:
        return {host.name: sent(self.fleet, host.name).payload_bytes for host in self.fleet.hosts}

    def _received(self, before: Mapping[str, Crossed]) -> int:
        now = crossed(self.fleet)
        return sum((now[host.name] - before[host.name]).payload_bytes for host in self.fleet.members)

    def _installed(self, name: str) -> set[str]:
        told = self.log.newest(name)
        return set(told.installed) if told else set()

    def _ended(self, names: Collection[str]) -> Callable[[], str]:
        """Says which of these processes ended, and their last words."""

        def ended() -> str:
            dead = [name for name in names if not self.members.lives(name)]
            return "".join(f"{name} ended: {self.members.words(name)}\n" for name in dead)

        return ended


def _busy_seconds() -> float:
    """Of all cores since the machine's start, interrupts and other people's work among them."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)
