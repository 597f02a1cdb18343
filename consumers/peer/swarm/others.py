"""What a peer knows of the other hosts of a cast: who has which chunk, and who may be asked.

Of the scheduler's thread only. Rack-mates are counted by chunk in ``holders``; of hosts in other racks the few that
speak to this one, the tree's neighbours, are known chunk by chunk, of all others only what their racks have together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.choice import NONE, Counts, source_of
from headwater.rules.cast.deadlines import Quarantine

Who: TypeAlias = tuple[str, int]
"""A host and its incarnation."""


@dataclass(slots=True)
class Other:
    """One incarnation of a host. ``load``: our requests under way there. ``counted``: its chunks are in ``holders``."""

    who: Who
    rack: str
    has: Bits
    load: int = 0
    busy_until: float = 0.0
    silent: bool = False
    counted: bool = False

    @property
    def host(self) -> str:
        return self.who[0]


@dataclass(slots=True)
class Others:
    """``holders``: by chunk the rack-mates that have it and may be asked."""

    rack: str
    count: int
    quarantine: Quarantine = field(default_factory=Quarantine)
    by_host: dict[str, Other] = field(default_factory=dict)
    mates: list[Other] = field(default_factory=list)
    holders: Counts = field(init=False)
    highest: int = -1
    """The highest chunk that any rack-mate ever had."""

    def __post_init__(self) -> None:
        self.holders = np.zeros(self.count, np.int16)

    def place(self, hosts: Iterable[tuple[str, int, str]], now: float) -> None:
        """The hosts that take part now, each with its incarnation and rack. Of a new incarnation nothing is known."""
        placed = {host: (incarnation, rack) for host, incarnation, rack in hosts}
        for other in [*self.by_host.values()]:
            if placed.get(other.host) != (other.who[1], other.rack):
                self._uncount(other)
                del self.by_host[other.host]
        for host, (incarnation, rack) in placed.items():
            if host not in self.by_host:
                self.by_host[host] = Other((host, incarnation), rack, np.zeros(self.count, np.bool_))
        self.mates = [other for _, other in sorted(self.by_host.items()) if other.rack == self.rack]
        self.review(now)

    def find(self, who: Who) -> Other | None:
        """None where that incarnation does not take part (any more)."""
        other = self.by_host.get(who[0])
        return other if other is not None and other.who == who else None

    def gain(self, other: Other, chunk: int) -> bool:
        """It has the chunk. False where that was known."""
        if other.has[chunk]:
            return False
        other.has[chunk] = True
        if other.rack == self.rack:
            self.highest = max(self.highest, chunk)
            self.holders[chunk] += other.counted
        return True

    def lose(self, other: Other, chunk: int) -> None:
        """It does not have the chunk, whatever was said."""
        if other.has[chunk]:
            other.has[chunk] = False
            self.holders[chunk] -= other.counted

    def hold(self, other: Other, bits: Bits) -> bool:
        """It has these chunks, and those that were known before: what it said last may be older. True if any is new."""
        new = bits & ~other.has
        if not new.any():
            return False
        other.has |= new
        if other.rack == self.rack:
            self.highest = max(self.highest, int(np.flatnonzero(new)[-1]))
            if other.counted:
                self.holders += new
        return True

    def forget(self, other: Other, bits: Bits) -> None:
        """It began anew with these chunks only: BITS of a link that has just opened."""
        self._uncount(other)
        other.has = np.zeros(self.count, np.bool_)
        self.hold(other, bits)

    def review(self, now: float) -> None:
        """Who may be asked changed: count the chunks of those who may, and of nobody else."""
        for other in self.mates:
            may = not other.silent and not self.quarantine.holds(*other.who, now)
            if may and not other.counted:
                self.holders += other.has
                other.counted = True
            elif not may:
                self._uncount(other)

    def able(self, reach: int, now: float) -> Counts:
        """As ``holders``, of the first chunks, but without those that just said that they are busy."""
        able = self.holders[:reach].copy()
        for mate in self.mates:
            if mate.counted and now < mate.busy_until:
                able -= mate.has[:reach]
        return able

    def choose(
        self, chunk: int, asked: Collection[Who], slow: Collection[str], chance: float, now: float
    ) -> Who | None:
        """The rack-mate to ask for a chunk, none of those that were ``asked``; None: nobody now."""
        mates = self.mates
        holds = np.array([mate.has[chunk] for mate in mates], np.bool_)
        usable = np.array([self.usable(mate, now) and mate.who not in asked for mate in mates], np.bool_)
        slowly = np.array([mate.host in slow for mate in mates], np.bool_)
        load = np.array([mate.load for mate in mates], np.int16)
        chosen = source_of(holds, usable, slowly, load, chance)
        return None if chosen == NONE else mates[chosen].who

    def usable(self, other: Other, now: float) -> bool:
        """May it be asked right now?"""
        return not other.silent and now >= other.busy_until and not self.quarantine.holds(*other.who, now)

    def claimed(self) -> Bits:
        """By chunk, whether a rack-mate has it that cannot be asked: others have it, then, and this rack lacks it."""
        claimed = np.zeros(self.count, np.bool_)
        for mate in self.mates:
            if not mate.counted:
                claimed |= mate.has
        return claimed

    def rank(self, ahead: Iterable[str]) -> int:
        """How many of these rack-mates, who import a chunk before this host does, can be relied on."""
        return sum(host in self.by_host and self.by_host[host].counted for host in ahead)

    def _uncount(self, other: Other) -> None:
        if other.counted:
            self.holders -= other.has
            other.counted = False
