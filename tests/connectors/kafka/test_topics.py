"""The cluster's topics against a catalogue: missing, different, mended, refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import verify_topics
from headwater.rules.errors import BadSettings, TopicMismatch
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import Topic
from headwater.stack.addresses import Addresses

DAYS = timedelta(days=30)
ORDERS = Topic("orders", ObjectStored, "hash", 4, DAYS)
LEDGER = Topic("ledger", ObjectStored, "hash", 1, None)


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    return Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))


def test_missing_topics_are_created_with_their_partitions_and_retention(kafka: Kafka) -> None:
    created = topics.apply(kafka, (ORDERS, LEDGER))

    assert [(change.topic, change.found) for change in created] == [("orders", None), ("ledger", None)]
    found = topics.describe(kafka, (ORDERS, LEDGER))
    assert (found["orders"].partitions, found["orders"].retention_ms) == (4, 30 * 24 * 3600 * 1000)
    assert (found["ledger"].partitions, found["ledger"].retention_ms) == (1, -1)
    assert found["ledger"].cleanup_policy == "delete"
    assert topics.apply(kafka, (ORDERS, LEDGER)) == (), "a second time changes nothing"
    verify_topics(kafka, (ORDERS, LEDGER))


def test_a_different_retention_is_altered(kafka: Kafka) -> None:
    topics.apply(kafka, (ORDERS,))
    shorter = replace(ORDERS, retention=timedelta(days=3))

    [change] = topics.apply(kafka, (shorter,))

    assert (change.setting, change.expected, change.found) == ("retention.ms", "259200000", "2592000000")
    assert topics.describe(kafka, (shorter,))["orders"].retention_ms == 259_200_000


def test_a_different_partition_count_is_refused_with_the_reason_and_nothing_moves(kafka: Kafka) -> None:
    topics.apply(kafka, (ORDERS,))
    wider = replace(ORDERS, partitions=8)

    with pytest.raises(TopicMismatch, match=r"orders has partitions 4, expected 8.*decides where each key goes"):
        topics.apply(kafka, (wider, LEDGER))

    assert topics.describe(kafka, (wider,))["orders"].partitions == 4
    assert "ledger" in topics.describe(kafka, (LEDGER,)), "the rest was mended"
    with pytest.raises(TopicMismatch, match=r"orders has partitions 4, expected 8.*headwater topics apply"):
        verify_topics(kafka, (wider,))


def test_a_missing_topic_is_reported_with_the_command_that_makes_it(kafka: Kafka) -> None:
    with pytest.raises(
        TopicMismatch, match=r"topic orders is missing \(expected 4 partitions\).*headwater topics apply"
    ):
        verify_topics(kafka, (ORDERS,))


def test_a_different_replication_is_drift_that_apply_cannot_mend() -> None:
    found = {"orders": topics.FoundTopic(4, 1, topics.retention_ms(ORDERS), "delete", 1)}
    [change] = topics.drift((ORDERS,), found, replication=3)
    assert (change.setting, change.expected, change.found, change.mendable) == ("replication", "3", "1", False)
    assert topics.drift((ORDERS,), found) == ()


def test_the_replication_of_the_settings_is_what_topics_are_made_and_judged_with(
    stack: Addresses, kafka_prefix: str
) -> None:
    single = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix, replication=1))
    topics.apply(single, (ORDERS,))
    assert topics.describe(single, (ORDERS,))["orders"].replication == 1

    threefold = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix, replication=3))
    with pytest.raises(TopicMismatch, match=r"orders has replication 1, expected 3"):
        topics.apply(threefold, (ORDERS,))

    assert topics.describe(single, (ORDERS,))["orders"].min_insync_replicas == 1, "2 of 1 would refuse every record"


def test_with_three_copies_two_must_have_a_record_before_it_counts_as_written() -> None:
    careless = {"orders": topics.FoundTopic(4, 3, topics.retention_ms(ORDERS), "delete", 1)}
    [change] = topics.drift((ORDERS,), careless, replication=3)
    assert (change.setting, change.expected, change.found, change.mendable) == ("min.insync.replicas", "2", "1", True)
    assert topics.drift((ORDERS,), {"orders": replace(careless["orders"], min_insync_replicas=2)}, replication=3) == ()


def test_more_copies_than_there_are_brokers_are_refused_by_name(stack: Addresses, kafka_prefix: str) -> None:
    many = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix, replication=99))
    with pytest.raises(BadSettings, match=r"kafka\.replication"):
        topics.apply(many, (ORDERS,))
