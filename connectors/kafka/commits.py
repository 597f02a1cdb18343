"""What consumer groups committed and when: Kafka's own log of it, the internal topic __consumer_offsets.

It tells at once what would otherwise take minutes of watching: since when a group has not moved, and how fast it was.
Each commit is one message of which only the first fields are read here; they have stood since Kafka 0.9
(OffsetCommitKey.json and OffsetCommitValue.json in Kafka's group-coordinator):

    key    int16 version (0 or 1: a commit), string group, string topic, int32 partition
    value  int16 version, int64 offset, …; none: the commit was deleted

A string is its length as int16 and that many bytes of UTF-8. The message's timestamp is the time of the commit.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import KafkaException

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place
from headwater.connectors.kafka.reading import messages

TOPIC = "__consumer_offsets"
_SECONDS = 15.0
_PATIENCE_SECONDS = 1.0
_COMMIT_KEYS = (0, 1)


@dataclass(frozen=True, slots=True)
class Commit:
    """``at`` in seconds since 1970; ``offset`` is the next one to read."""

    at: float
    offset: int


def commits(kafka: Kafka, groups: Collection[str], since: float) -> dict[str, dict[Place, list[Commit]]]:
    """The commits of these groups (names on the cluster) since a time, oldest first, by group and partition.

    A group is left out where an open transaction hides its newest commits and does not end within a moment: then it is
    not known when the group last moved. Raises Refused where this user may not read Kafka's internal topics.
    """
    try:
        known = kafka.admin().list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise kafka.mapped(error, asked="The commits of groups were to be read.") from error
    if TOPIC not in known:  # no group has ever committed here
        return {group: {} for group in groups}
    places = {group: (TOPIC, _partition(group, len(known[TOPIC].partitions))) for group in groups}
    settled = _settled(kafka, set(places.values()))
    found: dict[str, dict[Place, list[Commit]]] = {group: {} for group, at in places.items() if at in settled}
    for message in messages(kafka, offsets.at_time(kafka, settled, int(since * 1000))):
        subject, value = _subject(message.key() or b""), message.value()
        if subject is not None and value is not None and subject[0] in found:
            commit = Commit(message.timestamp()[1] / 1000, struct.unpack_from(">q", value, 2)[0])
            found[subject[0]].setdefault(subject[1], []).append(commit)
    return found


def _settled(kafka: Kafka, places: Collection[Place]) -> set[Place]:
    """The partitions of which everything that is written now can be read: transactions end within milliseconds."""
    written = offsets.high_watermarks(kafka, places)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        readable = offsets.ends(kafka, places)
        settled = {place for place in places if readable[place] >= written[place]}
        if len(settled) == len(places) or time.monotonic() > deadline:
            return settled
        time.sleep(0.05)


def _subject(key: bytes) -> tuple[str, Place] | None:
    """The group and the partition of a commit; None for a message about something else, such as members."""
    if len(key) < 2 or struct.unpack_from(">h", key)[0] not in _COMMIT_KEYS:
        return None
    group, at = _string(key, 2)
    topic, at = _string(key, at)
    return group, (topic, struct.unpack_from(">i", key, at)[0])


def _string(data: bytes, at: int) -> tuple[str, int]:
    """The string at a place, and the place after it."""
    begin = at + 2
    end = begin + struct.unpack_from(">h", data, at)[0]
    return data[begin:end].decode(), end


def _partition(group: str, partitions: int) -> int:
    """Where a group's commits lie: the absolute value of Java's hash of its name, as Kafka's coordinators take it."""
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        hashed = (31 * hashed + unit) & 0xFFFF_FFFF
    signed = hashed - 0x1_0000_0000 if hashed >= 0x8000_0000 else hashed
    return (0 if signed == -0x8000_0000 else abs(signed)) % partitions
