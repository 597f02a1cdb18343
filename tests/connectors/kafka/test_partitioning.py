import os

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.partitioning import partition_of
from headwater.schemas import records
from headwater.schemas.topics import Topic

THINGS = Topic("things", records.ObjectStored, "content hash", 12)


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [THINGS])
    return kafka


def test_a_key_is_looked_for_where_the_producer_puts_it(kafka):
    keys = [os.urandom(length) for length in range(1, 70)] + [b"photos\x00a/b\xff.jpg", b"\xff" * 32]
    placed: dict[bytes, int] = {}
    producer = kafka.producer()
    for key in keys:
        producer.produce(
            kafka.physical(THINGS),
            key=key,
            on_delivery=lambda _, message: placed.update({message.key(): message.partition()}),
        )
    assert not producer.flush(20)

    assert {key: partition_of(key, THINGS.partitions) for key in keys} == placed
