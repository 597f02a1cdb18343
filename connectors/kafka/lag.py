"""How far each consumer group is behind, in records and in seconds.

Seconds are now less the timestamp of the next unread record, which a one-record fetch at the committed offset shows:
so the figure is right for a quiet topic too, where interpolating between offsets is not. Records count to the end of
what a read_committed reader may see. Markers of transactions take offsets but are nobody's records: a partition in
which only markers follow has no lag.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place

_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of one group. ``committed`` is None before the group's first commit there.

    ``seconds`` is the age of the next unread record, 0 without one. ``lost`` counts the offsets that retention deleted
    before the group read them.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    records: int
    seconds: float
    lost: int
    member: str
    """Host of the member that owns the partition; empty: nobody does."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """``state`` is Kafka's word: STABLE, EMPTY (no member), PREPARING_REBALANCING, COMPLETING_REBALANCING, DEAD."""

    group: str
    state: str
    members: int
    partitions: tuple[PartitionLag, ...]

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def seconds(self) -> float:
        """The oldest unread record's age."""
        return max((partition.seconds for partition in self.partitions), default=0.0)


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    state: str
    members: int
    committed: dict[Place, int]
    owners: dict[Place, str]

    @property
    def places(self) -> list[Place]:
        """What it reads. The changelog of a table of its own is given to a member too, and is no input."""
        places = self.committed.keys() | self.owners.keys()
        return sorted(place for place in places if not place[0].endswith("-changelog"))


def group_lags(kafka: Kafka, now: float, only: Collection[str] = ()) -> list[GroupLag]:
    """The lag of every group of this installation, or of those in ``only``. ``now`` in seconds since 1970."""
    try:
        groups = _groups(kafka, only)
        places = {place for group in groups for place in group.places}
        first, last = offsets.beginnings(kafka, places), offsets.ends(kafka, places)
        behind = {
            (place, at)
            for group in groups
            for place in group.places
            if (at := max(group.committed.get(place, 0), first[place])) < last[place]
        }
        unread = _next_records(kafka, behind)
    except KafkaException as error:
        raise kafka.mapped(error, asked="The lag of the groups was to be measured.") from error
    return [
        GroupLag(
            group.name,
            group.state,
            group.members,
            tuple(_lag(kafka, group, place, first[place], last[place], unread, now) for place in group.places),
        )
        for group in groups
    ]


def _lag(
    kafka: Kafka,
    group: _Group,
    place: Place,
    first: int,
    last: int,
    unread: dict[tuple[Place, int], tuple[int, float]],
    now: float,
) -> PartitionLag:
    committed = group.committed.get(place)
    following = unread.get((place, max(committed or 0, first)))
    return PartitionLag(
        topic=place[0].removeprefix(kafka.config.prefix),
        partition=place[1],
        committed=committed,
        end=last,
        records=last - following[0] if following else 0,
        seconds=max(0.0, now - following[1]) if following else 0.0,
        lost=max(0, first - committed) if committed is not None else 0,
        member=group.owners.get(place, ""),
    )


def _groups(kafka: Kafka, only: Collection[str]) -> list[_Group]:
    admin, prefix = kafka.admin(), kafka.config.prefix
    listed = admin.list_consumer_groups(request_timeout=_SECONDS).result().valid
    ids = sorted(group.group_id for group in listed if group.group_id.startswith(prefix))
    ids = [group for group in ids if not only or group.removeprefix(prefix) in only]
    if not ids:
        return []
    described = admin.describe_consumer_groups(ids, request_timeout=_SECONDS)
    # One group a request is what the protocol's version in librdkafka takes: send them all, then wait.
    committed = {
        group: admin.list_consumer_group_offsets([GroupOffsets(group)], request_timeout=_SECONDS)[group]
        for group in ids
    }
    found = []
    for group in ids:
        description = described[group].result()
        owners = {
            (at.topic, at.partition): member.host.lstrip("/")
            for member in description.members
            for at in (member.assignment.topic_partitions if member.assignment else ())
        }
        known = {
            (at.topic, at.partition): at.offset for at in committed[group].result().topic_partitions if at.offset >= 0
        }
        found.append(
            _Group(group.removeprefix(prefix), description.state.name, len(description.members), known, owners)
        )
    return found


def _next_records(kafka: Kafka, wanted: Iterable[tuple[Place, int]]) -> dict[tuple[Place, int], tuple[int, float]]:
    """The offset and timestamp (seconds) of the first record at or after each place; absent where only markers follow.

    Two groups may stand at two offsets of one partition, and a consumer at one: they are fetched in turns.
    """
    found: dict[tuple[Place, int], tuple[int, float]] = {}
    waiting = set(wanted)
    consumer = kafka.consumer(
        "lag", enable_partition_eof=True, fetch_wait_max_ms=50, queued_min_messages=1, max_partition_fetch_bytes=65_536
    )
    try:
        while waiting:
            turn = dict(waiting)
            consumer.assign([TopicPartition(*place, at) for place, at in turn.items()])
            deadline = time.monotonic() + _SECONDS
            open_places = set(turn)
            while open_places:
                message = consumer.poll(0.1)
                if message is None:
                    if time.monotonic() > deadline:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                    continue
                place, error = (message.topic() or "", message.partition() or 0), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if place in open_places and error is None:
                    found[(place, turn[place])] = (message.offset() or 0, message.timestamp()[1] / 1000)
                open_places.discard(place)
            waiting -= set(turn.items())
    finally:
        consumer.close()
    return found
