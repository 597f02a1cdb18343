import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.lag import group_lags
from headwater.schemas import records
from headwater.schemas.topics import Topic

THINGS = Topic("things", records.ObjectStored, "content hash", 2)
START_MS = 1_700_000_000_000
"""The time of the first record; each later one is a second younger."""


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [THINGS])
    return kafka


def produce(kafka: Kafka, partition: int, count: int) -> None:
    producer = kafka.producer()
    for number in range(count):
        producer.produce(kafka.physical(THINGS), value=b"v", partition=partition, timestamp=START_MS + number * 1000)
    producer.flush(10)


def commit(kafka: Kafka, group: str, partition: int, offset: int) -> None:
    consumer: Consumer = kafka.consumer(group)
    consumer.commit(offsets=[TopicPartition(kafka.physical(THINGS), partition, offset)], asynchronous=False)
    consumer.close()


def now(seconds_after_start: float) -> float:
    return START_MS / 1000 + seconds_after_start


def test_seconds_are_the_age_of_the_next_unread_record(kafka):
    produce(kafka, 0, 10)
    produce(kafka, 1, 3)
    commit(kafka, "readers", 0, 4)
    commit(kafka, "readers", 1, 3)

    (group,) = group_lags(kafka, now(600))

    assert (group.group, group.state, group.members) == ("readers", "EMPTY", 0)
    behind, level = group.partitions
    assert (behind.topic, behind.partition, behind.committed, behind.end) == ("things", 0, 4, 10)
    assert (behind.records, behind.seconds) == (6, 596.0)
    assert (level.committed, level.records, level.seconds) == (3, 0, 0.0)
    assert (group.records, group.seconds) == (6, 596.0)


def test_two_groups_at_two_offsets_of_one_partition_are_both_measured(kafka):
    produce(kafka, 0, 10)
    commit(kafka, "first", 0, 1)
    commit(kafka, "second", 0, 7)

    lags = {group.group: (group.records, group.seconds) for group in group_lags(kafka, now(10))}

    assert lags == {"first": (9, 9.0), "second": (3, 3.0)}
    assert [group.group for group in group_lags(kafka, now(10), only=["second"])] == ["second"]


def test_markers_of_transactions_are_no_lag(kafka):
    producer = kafka.transactional_producer("writer")
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(kafka.physical(THINGS), value=b"v", partition=0, timestamp=START_MS)
        producer.flush(10)
        producer.commit_transaction(30)
    commit(kafka, "behind", 0, 1)
    commit(kafka, "level", 0, 3)

    lags = {group.group: group.partitions[0] for group in group_lags(kafka, now(5))}

    assert lags["level"].end == 4
    assert (lags["level"].records, lags["level"].seconds) == (0, 0.0)
    assert (lags["behind"].records, lags["behind"].seconds) == (2, 5.0)


def test_records_of_an_open_transaction_are_not_yet_unread(kafka):
    produce(kafka, 0, 1)
    commit(kafka, "readers", 0, 1)
    producer = kafka.transactional_producer("writer")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(kafka.physical(THINGS), value=b"v", partition=0)
    producer.flush(10)

    (group,) = group_lags(kafka, now(5))

    assert (group.partitions[0].end, group.records) == (1, 0)
    producer.abort_transaction(30)


def test_what_retention_deleted_before_the_group_read_it_is_counted_as_lost(kafka):
    produce(kafka, 0, 10)
    commit(kafka, "slow", 0, 2)
    gone = TopicPartition(kafka.physical(THINGS), 0, 6)
    for future in kafka.admin().delete_records([gone]).values():
        future.result(10)

    (group,) = group_lags(kafka, now(10))

    assert (group.partitions[0].lost, group.records, group.seconds) == (4, 4, 4.0)


def test_a_member_that_never_committed_is_behind_by_all_of_its_partitions(kafka, eventually):
    produce(kafka, 0, 5)
    consumer = kafka.consumer("fresh")
    consumer.subscribe([kafka.physical(THINGS)])
    try:
        eventually(lambda: consumer.poll(0.1) and consumer.assignment(), within_seconds=30)

        (group,) = group_lags(kafka, now(10))

        assert (group.state, group.members) == ("STABLE", 1)
        assert [(at.partition, at.committed, at.records) for at in group.partitions] == [(0, None, 5), (1, None, 0)]
        assert group.partitions[0].member
    finally:
        consumer.close()


def test_a_cluster_without_our_groups_has_no_lag(kafka):
    assert group_lags(kafka, now(0)) == []
