"""A log of one's own on the shared broker: topics with a prefix, filled and read back by plain clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import ObjectStored, Record
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.stack.addresses import Addresses
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Processor


class Log:
    """``orders`` is what the members under test read, ``receipts`` what they write."""

    orders = Topic("orders", ObjectStored, "hash", 4)
    receipts = Topic("receipts", ObjectStored, "hash", 4)

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        topics.apply(kafka, (self.orders, self.receipts, DEAD_LETTERS))

    def order(self, number: int) -> ObjectStored:
        return ObjectStored(hash=number.to_bytes(32, "big"), generation=1, size=number, source="films")

    def place_orders(self, numbers: Iterable[int], **headers: bytes) -> None:
        orders = [self.order(number) for number in numbers]
        self.write(self.orders, [(order.key(), encode(order)) for order in orders], **headers)

    def write(
        self, topic: Topic, messages: Sequence[tuple[bytes, bytes | None]], partition: int = -1, **headers: bytes
    ) -> None:
        producer = self.kafka.producer()
        for key, value in messages:
            producer.produce(self.kafka.physical(topic), value, key, partition, headers=dict(headers))
        assert producer.flush(30) == 0
        producer.close()

    def messages(self, topic: Topic) -> list[Message]:
        """Everything that a reader of committed records sees now, in the order of each partition."""
        consumer = self.kafka.consumer("reader", enable_partition_eof=True)
        places = [TopicPartition(self.kafka.physical(topic), number, 0) for number in range(topic.partitions)]
        consumer.assign(places)
        seen: list[Message] = []
        open_ends = topic.partitions
        while open_ends:
            message = consumer.poll(10)
            assert message is not None, "the broker does not answer the test's reader"
            error = message.error()
            if error is None:
                seen.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_ends -= 1
        consumer.close()
        return seen

    def records(self, topic: Topic) -> list[Record]:
        return [decode(message.value()) for message in self.messages(topic)]  # type: ignore[arg-type]

    def receipt_numbers(self) -> list[int]:
        return sorted(record.size for record in self.records(self.receipts) if isinstance(record, ObjectStored))

    def committed(self, group: str) -> dict[int, int]:
        """The group's committed offset of each partition of ``orders`` that has one."""
        consumer = self.kafka.consumer(group)
        places = [TopicPartition(self.kafka.physical(self.orders), number) for number in range(self.orders.partitions)]
        found = consumer.committed(places, 10)
        consumer.close()
        return {place.partition: place.offset for place in found if place.offset >= 0}

    @contextmanager
    def running(self, processor: Processor, folder: Path) -> Iterator[Member]:
        """A member in a thread; afterwards it was drained."""
        config = MemberConfig(slot_folder=folder, retry_base_seconds=0.01, retry_most_seconds=0.05)
        member = Member(self.kafka, processor, config)
        thread = Thread(target=member.run, daemon=True)
        thread.start()
        try:
            yield member
        finally:
            member.stop()
            thread.join(40)
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def make_log(stack: Addresses) -> Callable[..., Log]:
    """Makes a log with a prefix of its own on the shared broker, or on the one given."""

    def make(kafka: Kafka | None = None) -> Log:
        return Log(kafka or Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}.")))

    return make


@pytest.fixture
def log(make_log: Callable[..., Log]) -> Log:
    return make_log()
