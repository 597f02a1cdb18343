"""Finds the records about one subject: in its partition only, from a time on, as far as the log still holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.browse import Seen, as_seen
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.partitioning import partition_of
from headwater.connectors.kafka.reading import messages
from headwater.schemas.records import Record
from headwater.schemas.topics import Topic

MOST_RECORDS = 200_000
"""Records of other subjects that are read past in a partition: about two seconds' work."""


@dataclass(frozen=True, slots=True)
class Found:
    """``complete`` False: the end was not reached within ``MOST_RECORDS``."""

    records: tuple[Seen, ...]
    complete: bool


def about(
    kafka: Kafka,
    topic: Topic,
    key: bytes,
    since_ms: int,
    until_ms: int | None,
    wanted: Callable[[Record], bool],
    *,
    placed_by: bytes | None = None,
) -> Found:
    """The wanted records with this key between two times; ``until_ms`` None: up to the end. ``placed_by``: whose hash
    names the partition, where that is not the key."""
    places = offsets.partitions(kafka, topic.name)
    place = places[partition_of(placed_by or key, len(places))]
    found: list[Seen] = []
    count = 0
    for message in islice(messages(kafka, offsets.at_time(kafka, [place], since_ms)), MOST_RECORDS):
        count += 1
        if until_ms is not None and message.timestamp()[1] > until_ms:
            return Found(tuple(found), True)
        if message.key() == key:
            one = as_seen(topic.name, message)
            if one.record is not None and wanted(one.record):
                found.append(one)
    return Found(tuple(found), count < MOST_RECORDS)
