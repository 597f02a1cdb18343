"""The casts that a member of the gossip follows: facts and availability, folded as they come, and summed up by rack."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Message

from headwater.observe import metrics
from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastAvailability, CastRack
from headwater.schemas.codec import decode
from headwater.schemas.topics import CAST_AVAILABILITY
from headwater.streams.gossip.cast import RackHosts, racks_of
from headwater.streams.gossip.facts import Facts
from headwater.streams.gossip.group import GROUP, AvailabilityGroup


class Fleet:
    """``hear``, then ``summaries``, in one thread."""

    def __init__(self, facts: Facts, group: AvailabilityGroup) -> None:
        self.group = group
        self._facts = facts
        self._racks: dict[int, dict[str, RackHosts]] = {}

    def hear(self, within_seconds: float) -> None:
        """Take what has come, facts first: who speaks has joined a cast that was announced."""
        self._facts.catch_up()
        messages = self.group.read(within_seconds)
        for message in messages:
            try:
                self._take(message)
            except BadRecord:
                metrics.GOSSIP_IGNORED.labels("unreadable").inc()
        metrics.GROUP_RECORDS.labels(GROUP).inc(len(messages))

    def summaries(self, at_us: int) -> Iterator[tuple[Manifest, CastRack]]:
        """Of each live cast and rack that this member follows; of one that its hosts left, once more."""
        known, self._racks = self._racks, {}
        for epoch, cast in self._facts.casts.items():
            racks = racks_of(self._facts.view, cast.manifest)
            self._racks[epoch] = racks
            emptied = {
                rack: RackHosts(hosts.partition, (), ())
                for rack, hosts in known.get(epoch, {}).items()
                if rack not in racks
            }
            for rack, hosts in (racks | emptied).items():
                if hosts.partition in self.group.held:
                    number = self._facts.view.numbers[hosts.partition]
                    yield (
                        cast.manifest,
                        cast.summary(rack, hosts, at_us=at_us, joined_us=self._facts.joined_us, number=number),
                    )

    def _take(self, message: Message) -> None:
        cast = self._facts.casts.get(_epoch(message.key()))
        if cast is None:
            return
        said = decode(message.value())
        if not isinstance(said, CastAvailability):
            raise BadRecord(f"a {type(said).__name__} lies in {CAST_AVAILABILITY.name}")
        host = self._facts.view.numbered(message.partition() or 0, said.number)
        if host is None:
            metrics.GOSSIP_IGNORED.labels("unplaced").inc()
            return
        cast.hear(host, said, message.timestamp()[1] * 1_000)


def _epoch(key: bytes | None) -> int:
    """The cast that a record is of, before it is decoded; -1 where its key does not say."""
    digits = (key or b"").partition(b"/")[0]
    return int(digits) if digits.isdigit() else -1
