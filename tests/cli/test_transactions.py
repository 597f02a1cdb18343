"""`headwater transactions`: open ones with their owners, and partitions that a lost one holds up."""

import pytest

from headwater.cli.transactions import owner
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.transactions import TOPIC
from headwater.schemas.topics import SYNC_OBJECTS, catalogue

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, catalogue(("lab",)))
    return on_stack


def begin(kafka, transactional_id: str, topic: str):
    producer = kafka.transactional_producer(transactional_id)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"v", partition=4)
    producer.flush(10)
    return producer


def test_an_open_one_is_shown_with_owner_age_and_partitions(kafka, command):
    producer = begin(kafka, "verify-objects.host-7.example.org.0", kafka.physical(SYNC_OBJECTS))

    document = command("transactions", "--json").json
    shown = command("transactions", COLUMNS="110").out

    (one,) = document["open"]
    assert (one["owner"], one["state"]) == ("member 0 of verify-objects on host-7.example.org", "ongoing")
    assert 0 <= one["age_seconds"] < 60
    assert document["hanging"] == []
    assert [(at["topic"], at["partition"]) for at in document["held_up"]] == [("sync.objects", 4)]
    assert "sync.objects/4" in shown
    assert "ongoing" in shown
    producer.abort_transaction(30)


def test_another_programs_transaction_is_ours_to_know_only_where_it_wrote_to_our_topics(
    kafka, command, stack, eventually
):
    other = Kafka(KafkaConfig(stack.kafka, prefix="x" + kafka.config.prefix))
    topics.apply(other, [SYNC_OBJECTS])
    away = begin(other, "theirs", other.physical(SYNC_OBJECTS))
    assert command("transactions", "--json").json["open"] == []
    assert "theirs" in str(command("transactions", "--all", "--json").json["open"])
    away.abort_transaction(30)

    here = begin(other, "theirs", kafka.physical(SYNC_OBJECTS))

    (one,) = command("transactions", "--json").json["open"]
    assert one["owner"] == "another program"
    here.abort_transaction(30)
    eventually(lambda: "No transaction is open." in command("transactions").out)


def test_a_partition_held_up_by_a_transaction_that_its_coordinator_lost_is_said_to_hang(kafka, command):
    producer = begin(kafka, "lost.host-7.0", kafka.physical(SYNC_OBJECTS))
    forget(kafka, "lost.host-7.0")

    document = command("transactions", "--json").json

    assert document["open"] == []
    assert [(at["topic"], at["partition"], at["stable"], at["end"]) for at in document["hanging"]] == [
        ("sync.objects", 4, 0, 1)
    ]
    assert "kafka-transactions.sh find-hanging" in command("transactions").out
    producer.abort_transaction(30)


def forget(kafka, transactional_id: str) -> None:
    """Delete what the log of transactions says of it. Brokers take writes to it from this client id only."""
    key = b"\x00\x00" + len(kafka.config.prefix + transactional_id).to_bytes(2, "big")
    key += (kafka.config.prefix + transactional_id).encode()
    partitions = kafka.admin().list_topics(timeout=10).topics[TOPIC].partitions
    producer = kafka.producer(client_id="__admin_client")
    for partition in partitions:
        producer.produce(TOPIC, key=key, value=None, partition=partition)
    assert not producer.flush(10)


@pytest.mark.parametrize(
    ("transactional_id", "expected"),
    [
        ("upload-files.lab.host-7.2", "member 2 of upload-files on host-7"),
        ("verify-large.host-7.0", "member 0 of verify-large on host-7"),
        ("commit.main", "the committer of main"),
        ("dead-letters.redrive", "a redrive of dead letters"),
        ("somebody", "another program"),
    ],
)
def test_owners_are_read_from_ids(transactional_id, expected):
    assert owner(transactional_id) == expected
