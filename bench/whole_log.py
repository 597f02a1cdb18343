"""Every record that the log holds, read by a plain client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from headwater.schemas import codec
from headwater.schemas.records import Record

_DEADLINE_SECONDS = 120


def records(kafka: str, wanted: Callable[[str], bool]) -> Iterator[Record]:
    """Every record that a read_committed reader sees of the topics that are ``wanted``, from the first to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    topics = {
        name: len(topic.partitions) for name, topic in consumer.list_topics(timeout=20).topics.items() if wanted(name)
    }
    left = {(name, number) for name, count in topics.items() for number in range(count)}
    consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for name, number in left])
    try:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end of {sorted(left)} within {_DEADLINE_SECONDS} s")
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    yield codec.decode(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
    finally:
        consumer.close()
