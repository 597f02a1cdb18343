"""Following partitions: all that was there, then what comes, over the marks of transactions."""

import pytest

from headwater.connectors.kafka import offsets, topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.following import Following
from headwater.schemas.topics import SYNC_REQUESTS

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [SYNC_REQUESTS])
    return kafka


@pytest.fixture
def follow(kafka):
    followed = []

    def follow(starts=None) -> Following:
        places = offsets.partitions(kafka, SYNC_REQUESTS.name)
        followed.append(Following(kafka, starts or offsets.beginnings(kafka, places)))
        return followed[-1]

    yield follow
    for one in followed:
        one.close()


def produce(kafka, *values: bytes, partition: int = 0) -> None:
    producer = kafka.producer()
    for value in values:
        producer.produce(kafka.physical(SYNC_REQUESTS), value, partition=partition)
    assert producer.flush(10) == 0
    producer.close()


def test_what_was_there_comes_first_then_what_comes(kafka, follow, eventually):
    produce(kafka, b"1", b"2")
    produce(kafka, b"3", partition=4)
    following = follow()

    assert sorted(message.value() for message in following.catch_up()) == [b"1", b"2", b"3"]

    produce(kafka, b"4")
    assert eventually(lambda: [message.value() for message in following.read(0.1)]) == [b"4"]
    assert list(following.catch_up()) == []


def test_an_empty_topic_is_caught_up_with_at_once(follow):
    assert list(follow().catch_up()) == []
    assert follow().read(0.0) == []


def test_the_marks_of_transactions_do_not_hold_up_who_catches_up(kafka, follow):
    producer = kafka.transactional_producer("follow")
    producer.init_transactions(30)
    for value in (b"kept", b"aborted"):
        producer.begin_transaction()
        producer.produce(kafka.physical(SYNC_REQUESTS), value, partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if value == b"kept" else producer.abort_transaction(10)

    assert [message.value() for message in follow().catch_up()] == [b"kept"]
