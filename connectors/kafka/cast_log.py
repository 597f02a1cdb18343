"""Reads one cast from the log, up to now and on: for `headwater cast watch` and `report`."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable

from confluent_kafka import Message

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.connectors.kafka.offsets import Place
from headwater.rules.errors import BadRecord, NotFound
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import Manifest, announced
from headwater.schemas.cast_records import CastManifest, ManifestKind
from headwater.schemas.codec import decode
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_RACKS, Topic

_RACKS_BACK_MS = 30_000
"""The gossip says every rack of a live cast within ten seconds."""
_NAMED = 8


class CastLog:
    """Used from one thread; ``history`` grows with each ``catch_up``."""

    def __init__(self, kafka: Kafka, cast: str) -> None:
        """Finds the newest cast of that name, else the one of that epoch, and reads what there is. Raises NotFound, or
        what Kafka's errors are mapped to."""
        first = offsets.beginnings(kafka, offsets.partitions(kafka, CAST_MANIFESTS.name))
        manifest, at_us = _found(kafka, cast, first)
        self.history = CastHistory(manifest, at_us)
        announced_ms = at_us // 1_000
        self._following = Following(
            kafka,
            _at_time(kafka, CAST_MANIFESTS, announced_ms)
            | offsets.beginnings(kafka, offsets.partitions(kafka, CAST_MEMBERS.name))
            | _at_time(kafka, CAST_PROGRESS, announced_ms)
            | _at_time(kafka, CAST_EVENTS, announced_ms)
            | _at_time(kafka, CAST_RACKS, int(time.time() * 1_000) - _RACKS_BACK_MS),
        )
        try:
            self.catch_up()
        except BaseException:
            self.close()
            raise

    def catch_up(self) -> None:
        """Take all that is on the log now. Raises what Kafka's errors are mapped to."""
        self._take(self._following.catch_up())

    def read(self, within_seconds: float) -> None:
        """Take what has come; waits as long for a first record, also while no broker answers."""
        self._take(self._following.read(within_seconds))

    def close(self) -> None:
        self._following.close()

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            try:
                record = decode(message.value())
                at_us = message.timestamp()[1] * 1_000
                self.history.take(record, message.partition() or 0, message.offset() or 0, at_us)
            except BadRecord:
                continue  # it is no part of the cast: peers skip it too


def _found(kafka: Kafka, cast: str, beginnings: dict[Place, int]) -> tuple[Manifest, int]:
    """The cast's announcement, and when it was made."""
    by_epoch: dict[int, tuple[Manifest, int]] = {}
    following = Following(kafka, beginnings)
    try:
        for message in following.catch_up():
            try:
                record = decode(message.value())
                if isinstance(record, CastManifest) and record.kind is ManifestKind.announced:
                    by_epoch.setdefault(record.epoch, (announced(record), message.timestamp()[1] * 1_000))
            except BadRecord:
                continue
    finally:
        following.close()
    named = [epoch for epoch, (manifest, _) in by_epoch.items() if manifest.name == cast]
    if named:
        return by_epoch[max(named)]
    if cast.isdigit() and int(cast) in by_epoch:
        return by_epoch[int(cast)]
    raise _not_found(cast, {manifest.name for manifest, _ in by_epoch.values()})


def _not_found(cast: str, names: set[str]) -> NotFound:
    near = difflib.get_close_matches(cast, names, _NAMED) or sorted(names)[:_NAMED]
    return NotFound(
        f"the log has no cast {cast!r}.",
        asked=f"The cast {cast} was to be shown.",
        advice=f"There are: {', '.join(near)}{', …' if len(near) < len(names) else ''}."
        if names
        else "Nothing was cast in the last 30 days: `headwater cast publish FILE --name NAME` does it.",
    )


def _at_time(kafka: Kafka, topic: Topic, timestamp_ms: int) -> dict[Place, int]:
    return offsets.at_time(kafka, offsets.partitions(kafka, topic.name), timestamp_ms)
