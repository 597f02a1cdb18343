"""Reading batches as a member of a consumer group, and keeping the place in the group while a batch is worked on.

The assignment protocol is eager: every rebalance takes all partitions away and gives some back. So an *assignment* is
one whole: it has a number, the partitions, the membership (what the broker fences stale commits by), and an end.
Whatever was read under an assignment that is over is worthless, and is read again from the committed offsets.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs, metrics
from headwater.rules.errors import Fenced
from headwater.schemas.topics import Topic
from headwater.streams.runtime.processor import BatchLimits

Place = tuple[str, int]
"""A topic's name on the cluster, and a partition of it."""

_REQUEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Partitions held between two rebalances. ``over`` is set when they are taken away."""

    number: int
    places: tuple[Place, ...]
    membership: bytes
    over: Event = field(default_factory=Event)

    def is_current(self) -> bool:
        return not self.over.is_set()


@dataclass(frozen=True, slots=True)
class Reading:
    """What one read gave: messages as they came, and where reading goes on once they are committed."""

    messages: tuple[Message, ...]
    next_offsets: dict[Place, int]
    assignment: Assignment

    @property
    def is_idle(self) -> bool:
        """It was made because there was nothing to read."""
        return not self.next_offsets


class BatchReader:
    """One consumer in its group. Not safe for threads: the member's consumer thread owns it.

    ``numbers`` numbers the assignments of a member over all its readers.
    """

    def __init__(
        self, kafka: Kafka, group: str, topics: Sequence[Topic], limits: BatchLimits, numbers: Iterator[int]
    ) -> None:
        self.group = group
        self._kafka = kafka
        self._limits = limits
        self._numbers = numbers
        self._log = logs.logger()
        self._logical = {kafka.physical(topic): topic.name for topic in topics}
        self._held: list[Message] = []
        self._positions: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._place_lost = False
        self.assignment = self._nothing()
        self._consumer: Consumer = kafka.consumer(group, enable_partition_eof=True)
        self._consumer.subscribe(
            list(self._logical), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def read(self, *, at_once: bool = False) -> Reading | None:
        """The next batch, within its limits; None where nothing came. Serves rebalances.

        ``at_once`` takes what has arrived and waits for nothing. Raises our errors for what the broker reports.
        """
        if self._place_lost:
            self._rewind()
        assignment = self.assignment
        messages = self._held or self._consume(0.0 if at_once else self._limits.wait_seconds)
        if assignment is not self.assignment:
            # Some of these may be of partitions that were just taken away, or given to us after others read on.
            self._place_lost = True
            return None
        return self._cut(messages, assignment)

    def idle(self) -> Reading | None:
        """A reading of nothing, where partitions are held and nothing is known to wait in them."""
        if self._place_lost or self._held or not self.assignment.places:
            return None
        return Reading((), {}, self.assignment)

    def keep_place(self) -> None:
        """Serve rebalances and answer the broker while partitions are paused. Returns at once."""
        assignment = self.assignment
        message = self._consumer.poll(0)
        if assignment is not self.assignment:
            self.pause()
            self._place_lost = True
        if message is not None:
            self._place_lost = self._place_lost or message.error() is None
            self._raise_for(message)

    def pause(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def broker_answers(self, within_seconds: float) -> bool:
        try:
            self._consumer.list_topics(next(iter(self._logical)), timeout=within_seconds)
        except KafkaException:
            return False
        return True

    def partitions(self) -> tuple[tuple[str, int], ...]:
        """The catalogue's topic and the partition of each partition held."""
        return tuple((self._logical[topic], partition) for topic, partition in self.assignment.places)

    def place(self, message: Message) -> tuple[str, int]:
        """The catalogue's topic and the partition of a message."""
        topic, partition = _place(message)
        return self._logical[topic], partition

    def lags(self) -> dict[tuple[str, int], int]:
        """Records behind the end of each partition held, as far as the last fetch knows; no request is made."""
        lags = {}
        for place in self.assignment.places:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            position = self._positions.get(place, 0)
            # The high watermark also counts the markers of transactions, so only the end tells that nothing is left.
            at_end = self._ends.get(place, -1) >= position
            lags[self._logical[place[0]], place[1]] = 0 if at_end or high < 0 else max(0, high - position)
        return lags

    def close(self) -> None:
        """Leave the group: its other members take over at once."""
        self.assignment.over.set()
        self._consumer.close()

    def _nothing(self) -> Assignment:
        return Assignment(next(self._numbers), (), b"")

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._change(
            Assignment(
                next(self._numbers),
                tuple(sorted((partition.topic, partition.partition) for partition in partitions)),
                consumer.consumer_group_metadata(),
            )
        )

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # A pause outlives the assignment inside librdkafka: partitions that came back would never be read again.
        consumer.resume(partitions)
        self._change(self._nothing())

    def _change(self, assignment: Assignment) -> None:
        """Within a rebalance callback: no waiting, no request."""
        for topic, partition in self.partitions():
            for gauge in (metrics.GROUP_LAG_RECORDS, metrics.GROUP_LAG_SECONDS):
                gauge.remove(self.group, topic, str(partition))
        self.assignment.over.set()
        self.assignment = assignment
        self._held, self._positions, self._ends = [], {}, {}
        metrics.GROUP_REBALANCES.labels(self.group).inc()
        self._log.info("group.rebalanced", group=self.group, assignment=assignment.number, partitions=self.partitions())

    def _consume(self, wait_seconds: float) -> list[Message]:
        consumed = self._consumer.consume(self._limits.records, wait_seconds)
        messages = [message for message in consumed if message.error() is None]
        if len(messages) < len(consumed):
            for message in consumed:
                self._raise_for(message)
        return messages

    def _raise_for(self, message: Message) -> None:
        """Skipped errors hide a stalled group. The end of a partition is no error, but worth knowing."""
        error = message.error()
        if error is None:
            return
        if error.code() != KafkaError._PARTITION_EOF:
            raise self._kafka.mapped(error, asked=f"Group {self.group} reads {', '.join(self._logical.values())}.")
        self._ends[_place(message)] = _offset(message)

    def _cut(self, messages: list[Message], assignment: Assignment) -> Reading | None:
        """A batch of the first messages within the limits; the others are held for the next read."""
        taken = messages[: _within(messages, self._limits.value_bytes)]
        self._held = messages[len(taken) :]
        # In the order of each partition: the last one says where it goes on.
        next_offsets: dict[Place, int] = {(m.topic(), m.partition()): m.offset() + 1 for m in taken}  # type: ignore
        self._positions.update(next_offsets)
        if not self._held:
            next_offsets |= self._ends_reached()
        if not next_offsets:
            return None
        _require_membership(assignment)
        return Reading(tuple(taken), next_offsets, assignment)

    def _ends_reached(self) -> dict[Place, int]:
        """Ends beyond the last record read: a transaction's marker lies between, and would be shown as lag for ever."""
        beyond = {
            place: end for place, end in self._ends.items() if place in self._positions and end > self._positions[place]
        }
        self._positions.update(beyond)
        return beyond

    def _rewind(self) -> None:
        """Read on from what the group committed."""
        self._held, self._positions, self._ends = [], {}, {}
        self._place_lost = False
        if self.assignment.places:
            asked = f"Group {self.group} was to find its committed offsets."
            try:
                places = [TopicPartition(*place) for place in self.assignment.places]
                self._consumer.assign(self._consumer.committed(places, _REQUEST_SECONDS))
            except KafkaException as error:
                raise self._kafka.mapped(error, asked=asked) from error


def _within(messages: Sequence[Message], value_bytes: int) -> int:
    """How many of the messages, one at least, hold no more bytes than that together."""
    return max(1, bisect_right(list(accumulate(map(len, messages))), value_bytes))


def _place(message: Message) -> Place:
    return message.topic(), message.partition()  # type: ignore[return-value]  # both are set on a consumed message


def _offset(message: Message) -> int:
    return message.offset()  # type: ignore[return-value]  # set on a consumed message


_METADATA_PREFIX = b"CGMDv2:"
"""How librdkafka writes down a group's metadata: this, then the generation as a native 32-bit integer."""


def _require_membership(assignment: Assignment) -> None:
    """Without a generation the broker would take a stale member's offsets for an administrator's and not fence them."""
    membership = assignment.membership
    known = membership.startswith(_METADATA_PREFIX) and len(membership) >= len(_METADATA_PREFIX) + 4
    if not known or struct.unpack_from("=i", membership, len(_METADATA_PREFIX))[0] < 0:
        raise Fenced("the group had already dropped this member when it was given its partitions")
