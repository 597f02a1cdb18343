"""The view of a fleet's peers: the fold of cast.members, the same for everybody who read the same records.

A host has one place in it, that of its newest incarnation. Of one incarnation the later record counts: a host that was
suspected and lives says ``joined`` again. What is said of an older incarnation changes nothing. The records of an
incarnation lie in one partition, its rack's, in order; the partitions may be read in any order against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from headwater.schemas.cast_records import CastMember, MemberState

Entry: TypeAlias = tuple[CastMember, int, int]
"""A record of cast.members, its partition and its offset there."""

ORIGIN = "/"
"""In the names of origins, HOST/EPOCH: the host may run another peer beside it."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host's place. ``number`` is the offset of its newest ``joined`` record in ``partition``, by which its
    availability names it; None where compaction has left only what was said of it later."""

    name: str
    rack: str
    address: str
    incarnation: int
    partition: int
    number: int | None
    only: str | None
    state: MemberState

    @property
    def live(self) -> bool:
        """It joined, did not leave, and nobody suspects it."""
        return self.state is MemberState.joined

    @property
    def only_sends(self) -> bool:
        """It is the origin of a cast, named after its machine and the cast's epoch: no cast shall reach it."""
        return ORIGIN in self.name

    @property
    def suspected(self) -> bool:
        """Others do not reach it any more, and it has not said that it lives."""
        return self.state is MemberState.suspected


@dataclass(frozen=True)  # without slots: what is derived from it is computed once, when it is first asked for
class View:
    """``hosts`` by name, also those that left or are suspected. ``numbers``: of each partition the offset of the last
    record that was read, which numbers the view."""

    hosts: Mapping[str, Host] = field(default_factory=dict)
    numbers: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> View:
        return cls().after(entries)

    def after(self, entries: Iterable[Entry]) -> View:
        """The view when these records are read too. What was read before changes nothing."""
        hosts, numbers = dict(self.hosts), dict(self.numbers)
        for said, partition, offset in entries:
            if offset <= numbers.get(partition, -1):
                continue
            numbers[partition] = offset
            known = hosts.get(said.host)
            if known is None or said.incarnation >= known.incarnation:
                hosts[said.host] = _placed(known, said, partition, offset)
        return View(hosts, numbers)

    @cached_property
    def racks(self) -> Mapping[str, tuple[Host, ...]]:
        """The live hosts of each rack that has some, both in the order of their names."""
        found: dict[str, list[Host]] = {}
        for _, host in sorted(self.hosts.items()):
            if host.live:
                found.setdefault(host.rack, []).append(host)
        return {rack: tuple(found[rack]) for rack in sorted(found)}

    @cached_property
    def _by_number(self) -> Mapping[tuple[int, int], Host]:
        return {(host.partition, host.number): host for host in self.hosts.values() if host.number is not None}

    def numbered(self, partition: int, number: int) -> Host | None:
        """The host that an availability record in this partition of cast.availability means."""
        return self._by_number.get((partition, number))


def _placed(known: Host | None, said: CastMember, partition: int, offset: int) -> Host:
    if said.state is not MemberState.joined and known is not None and known.incarnation == said.incarnation:
        return known if said.state is MemberState.unknown else replace(known, state=said.state)
    return Host(
        name=said.host,
        rack=said.rack,
        address=said.address,
        incarnation=said.incarnation,
        partition=partition,
        number=offset if said.state is MemberState.joined else None,
        only=said.only,
        state=said.state,
    )
