"""What the gossip must know beside availability: live casts, the peers, their steps, and what is worth an alarm.

Read without a group by every member: these topics are small, and each needs all of them. A cast is live from its
announcement until it is aborted, removed, replaced by a newer one of its name, or expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import Message

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.observe import logs, metrics
from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import Manifest, Manifests
from headwater.schemas.cast_records import CastEvent, CastManifest, CastMember, CastProgress, ManifestKind, MemberState
from headwater.schemas.cast_view import Entry, View
from headwater.schemas.codec import decode
from headwater.schemas.records import Record
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, Topic
from headwater.streams.gossip.cast import CastFold

log = logs.logger()

Clock = Callable[[], float]


class Facts:
    """``casts`` by epoch, the ``view`` of the peers, and when each host joined. Used from one thread."""

    def __init__(self, kafka: Kafka, clock: Clock = time.time) -> None:
        """Reads what there is. Raises what Kafka's errors are mapped to."""
        self._clock = clock
        self.casts: dict[int, CastFold] = {}
        self.view = View()
        self.joined_us: dict[str, int] = {}
        self._manifests = Manifests()
        self._entries: list[Entry] = []
        self._first = Following(kafka, _beginnings(kafka, CAST_MANIFESTS) | _beginnings(kafka, CAST_MEMBERS))
        try:
            self._take(self._first.catch_up())
            self._then = Following(kafka, self._steps_of_live_casts(kafka) | _ends(kafka, CAST_EVENTS))
        except BaseException:
            self._first.close()
            raise
        self._take(self._then.catch_up())

    def catch_up(self) -> None:
        """Take what has come, waiting for nothing."""
        for following in (self._first, self._then):
            self._take(following.read(0.0))
        now_us = self._now_us()
        for epoch in [epoch for epoch, cast in self.casts.items() if cast.manifest.expired(now_us)]:
            self._forget(epoch)

    def close(self) -> None:
        self._first.close()
        self._then.close()

    def _now_us(self) -> int:
        return int(self._clock() * 1_000_000)

    def _steps_of_live_casts(self, kafka: Kafka) -> dict[offsets.Place, int]:
        places = offsets.partitions(kafka, CAST_PROGRESS.name)
        if not self.casts:
            return offsets.ends(kafka, places)
        return offsets.at_time(kafka, places, min(cast.announced_us for cast in self.casts.values()) // 1_000)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            try:
                record = decode(message.value())
                self._take_one(record, message)
            except BadRecord as error:
                log.warning("cast.unreadable", topic=message.topic(), offset=message.offset(), error=str(error))
        if self._entries:
            self.view = self.view.after(self._entries)
            self._entries = []

    def _take_one(self, record: Record, message: Message) -> None:
        at_us = message.timestamp()[1] * 1_000
        match record:
            case CastMember():
                self._entries.append((record, message.partition() or 0, message.offset() or 0))
                if record.state is MemberState.joined:
                    self.joined_us[record.host] = at_us
            case CastManifest():
                self._take_manifest(record, at_us)
            case CastProgress() if record.epoch in self.casts:
                self.casts[record.epoch].step(record)
            case CastEvent() if record.epoch in self.casts:
                name = self.casts[record.epoch].manifest.name
                metrics.CAST_EVENTS.labels(name, record.kind).inc()

    def _take_manifest(self, record: CastManifest, at_us: int) -> None:
        if record.kind is not ManifestKind.announced and record.epoch not in self.casts:
            return  # of a cast that is over
        manifest = self._manifests.take(record)
        if manifest.ended or manifest.expired(self._now_us()):
            self._forget(record.epoch)
        elif record.epoch in self.casts:
            self.casts[record.epoch].manifest = manifest
        else:
            self._begin(manifest, at_us)

    def _begin(self, manifest: Manifest, at_us: int) -> None:
        self.casts[manifest.epoch] = CastFold(manifest, at_us)
        named_so = sorted(epoch for epoch, cast in self.casts.items() if cast.manifest.name == manifest.name)
        for replaced in named_so[:-1]:
            self._forget(replaced)

    def _forget(self, epoch: int) -> None:
        self._manifests.forget(epoch)
        self.casts.pop(epoch, None)


def _beginnings(kafka: Kafka, topic: Topic) -> dict[offsets.Place, int]:
    return offsets.beginnings(kafka, offsets.partitions(kafka, topic.name))


def _ends(kafka: Kafka, topic: Topic) -> dict[offsets.Place, int]:
    return offsets.ends(kafka, offsets.partitions(kafka, topic.name))
