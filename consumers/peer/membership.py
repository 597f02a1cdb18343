"""Who the other peers are, what this one says of itself and of those that fell silent.

Of the scheduler's thread only. A host that is not heard of any more leaves this peer's candidate lists at once; the log
is told a moment later, by whoever of those that miss it comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headwater.consumers.peer.log import Log
from headwater.consumers.peer.swarm.others import Who
from headwater.observe import logs
from headwater.rules.errors import Fenced
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastMember, MemberState
from headwater.schemas.cast_view import Entry, Host, View

log = logs.logger()

_PATIENT_SECONDS = 1.0
"""A host that ends says so itself: its word takes this long at most."""
_SPREAD_SECONDS = 1.0
"""Those that miss a host say so at different times: who comes later sees that it was said."""


class Membership:
    """``chance`` gives numbers in [0, 1)."""

    def __init__(self, said: CastMember, words: Log, chance: Callable[[], float]) -> None:
        """``said``: what this peer says of itself, joined, once ``join`` is called."""
        self.me = said
        self.view = View()
        self.number: int | None = None
        """The offset of this peer's newest ``joined``, by which its availability names it; None until it arrived."""
        self._words, self._chance = words, chance
        self._missed: dict[Who, float] = {}

    @property
    def who(self) -> Who:
        return self.me.host, self.me.incarnation

    def join(self) -> None:
        """Says that this peer is there, and able to answer."""
        self._say(replace(self.me, at_us=time.time_ns() // 1_000), lambda offset: setattr(self, "number", offset))

    def leave(self, reason: str) -> None:
        self._say(replace(self.me, state=MemberState.left, reason=reason, at_us=time.time_ns() // 1_000))

    def begin_anew(self, incarnation: int, address: str) -> None:
        """This peer was stopped for a while: what others know of it holds no longer."""
        self.me = replace(self.me, incarnation=incarnation, address=address)
        self.number = None
        self.join()

    def read(self, entries: Iterable[Entry]) -> bool:
        """Takes records in; True where the view changed.

        Raises Fenced where another peer of this host's name began after this one.
        """
        before = self.view
        self.view = self.view.after(entries)
        if self.view.hosts == before.hosts:
            return False
        own = self.view.hosts.get(self.me.host)
        if own is not None and own.incarnation > self.me.incarnation:
            raise Fenced(
                f"another peer named {self.me.host} began after this one, at {own.address}.",
                asked="This peer took part in casts.",
                kept="What was installed is kept, and what is not whole can be resumed.",
                advice="Stop one of them, or give one of them another peer.host.",
            )
        if own is not None and own.incarnation == self.me.incarnation and own.state is MemberState.suspected:
            log.warning("peer.suspected", host=self.me.host)
            self.join()
        return True

    def address(self, who: Who) -> str | None:
        """Where that incarnation serves; None where nobody said so."""
        host = self.view.hosts.get(who[0])
        return host.address if host is not None and host.incarnation == who[1] else None

    def cast(self, manifest: Manifest) -> list[tuple[str, int, str]]:
        """The live hosts that take part in a cast, its origin among them: host, incarnation and rack."""
        return [
            (host.name, host.incarnation, host.rack)
            for hosts in self.view.racks.values()
            for host in hosts
            if host.name == manifest.origin or (not host.only_sends and manifest.names(host))
        ]

    def named(self, manifest: Manifest) -> bool:
        """Shall this host have the cast's file?"""
        me = self.me
        return manifest.names(
            Host(me.host, me.rack, me.address, me.incarnation, 0, self.number, me.only, MemberState.joined)
        )

    def rack_mates(self) -> Mapping[str, tuple[int, str]]:
        """The other live hosts of the rack, with incarnation and address; not those that only send."""
        mates = self.view.racks.get(self.me.rack, ())
        return {
            host.name: (host.incarnation, host.address)
            for host in mates
            if host.name != self.me.host and not host.only_sends and _share(host.only, self.me.only)
        }

    def missed(self, who: Who, now: float) -> None:
        """It fell silent, or refuses connections."""
        self._missed.setdefault(who, now + _PATIENT_SECONDS + self._chance() * _SPREAD_SECONDS)

    def found(self, who: Who) -> None:
        """It speaks."""
        self._missed.pop(who, None)

    def say_missed(self, now: float) -> list[Who]:
        """Says on the log who is missed for a while and not known to be; returns them."""
        due = [who for who, at in self._missed.items() if now >= at]
        said = []
        for who in due:
            del self._missed[who]
            host = self.view.hosts.get(who[0])
            if host is not None and host.incarnation == who[1] and host.live:
                self._suspect(host)
                said.append(who)
        return said

    def _suspect(self, host: Host) -> None:
        log.warning("peer.suspects", host=host.name, incarnation=host.incarnation)
        self._say(
            CastMember(
                host=host.name,
                incarnation=host.incarnation,
                rack=host.rack,
                address=host.address,
                state=MemberState.suspected,
                only=host.only,
                said_by=self.me.host,
                reason="it does not answer",
                at_us=time.time_ns() // 1_000,
            )
        )

    def _say(self, record: CastMember, said: Callable[[int], None] | None = None) -> None:
        self._words.say(record, record.rack, said)


def _share(one: str | None, other: str | None) -> bool:
    """Do two peers take part in some cast together?"""
    return one is None or other is None or one == other
