"""The transactions that are open now, from Kafka's own log of them, and the partitions that they hold up.

confluent-kafka's AdminClient has no call for it. The coordinators keep the state of every transactional id in the
internal topic __transaction_state; any client that may read it sees them, on any cluster. Its messages
(TransactionLogKey.json and TransactionLogValue.json in Kafka's transaction-coordinator):

    key    int16 version (0), string transactional id
    value  int16 version (0 or 1), int64 producer id, int16 producer epoch, int32 timeout in ms, int8 state,
           array of (string topic, array of int32 partitions) or null, int64 last update in ms, int64 start in ms, …

Version 1 is the flexible one: lengths are unsigned varints one larger than they say (0: null), with tagged fields.
What this log cannot show is a transaction that its coordinator has lost (it *hangs*): then a partition's last stable
offset stays behind its end although nobody has a transaction open there. ``held_up`` shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from confluent_kafka import KafkaException

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place
from headwater.connectors.kafka.reading import messages

TOPIC = "__transaction_state"
_SECONDS = 15.0
_LOOK_BACK_SECONDS = 3_600.0
"""Brokers allow a transaction 15 minutes by default (transaction.max.timeout.ms): an open one was written to since."""


class State(IntEnum):
    """A transactional id's state as its coordinator writes it."""

    empty = 0
    ongoing = 1
    prepare_commit = 2
    prepare_abort = 3
    complete_commit = 4
    complete_abort = 5
    dead = 6
    prepare_epoch_fence = 7

    @property
    def is_open(self) -> bool:
        """Readers of committed records still wait for its end."""
        return self in (State.ongoing, State.prepare_commit, State.prepare_abort)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of one transactional id (as on the cluster); ``partitions`` are those that it wrote to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: State
    timeout_seconds: float
    started_at: float
    partitions: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A partition (the catalogue's name) of which readers of committed records see up to ``stable`` only."""

    topic: str
    partition: int
    stable: int
    end: int


def open_transactions(kafka: Kafka, now: float) -> list[Transaction]:
    """Every open transaction of the cluster, the oldest first. Raises Refused where this user may not read the log."""
    try:
        topics = kafka.admin().list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise kafka.mapped(error, asked="Open transactions were to be listed.") from error
    if TOPIC not in topics:  # nobody ever began one here
        return []
    places = [(TOPIC, partition) for partition in topics[TOPIC].partitions]
    newest: dict[str, Transaction] = {}
    for message in messages(kafka, offsets.at_time(kafka, places, int((now - _LOOK_BACK_SECONDS) * 1000))):
        key, value = message.key() or b"", message.value()
        if len(key) < 2 or key[:2] != b"\x00\x00":
            continue
        transactional_id = key[4:].decode()
        if value is None:
            newest.pop(transactional_id, None)
        else:
            newest[transactional_id] = decode(transactional_id, value)
    return sorted((one for one in newest.values() if one.state.is_open), key=lambda one: one.started_at)


def held_up(kafka: Kafka, topics: Iterable[str]) -> list[HeldUp]:
    """The partitions of these topics (the catalogue's names) whose last stable offset is behind their end."""
    places = [place for topic in topics for place in offsets.partitions(kafka, topic)]
    stable, ends = offsets.ends(kafka, places), offsets.high_watermarks(kafka, places)
    prefix = kafka.config.prefix
    return [
        HeldUp(topic.removeprefix(prefix), partition, stable[topic, partition], ends[topic, partition])
        for topic, partition in places
        if stable[topic, partition] < ends[topic, partition]
    ]


def decode(transactional_id: str, value: bytes) -> Transaction:
    """The value of a message of the log."""
    reader = _Reader(value)
    flexible = reader.take(">h") > 0
    producer_id, epoch, timeout_ms, state = (reader.take(kind) for kind in (">q", ">h", ">i", ">b"))
    partitions: list[Place] = []
    for _ in range(reader.length(flexible, ">i")):
        topic = reader.text(reader.length(flexible, ">h"))
        partitions += [(topic, reader.take(">i")) for _ in range(reader.length(flexible, ">i"))]
        if flexible:
            reader.skip_tagged_fields()
    reader.take(">q")
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        State(state),
        timeout_ms / 1000,
        reader.take(">q") / 1000,
        tuple(partitions),
    )


class _Reader:
    """Kafka's primitive types, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, kind: str) -> int:
        value = struct.unpack_from(kind, self._data, self._at)[0]
        self._at += struct.calcsize(kind)
        return int(value)

    def length(self, flexible: bool, plain: str) -> int:
        """Of an array or a string; 0 where it is null."""
        return max(0, self._varint() - 1 if flexible else self.take(plain))

    def text(self, length: int) -> str:
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def skip_tagged_fields(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._at += self._varint()

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
