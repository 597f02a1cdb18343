import struct
import time

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.transactions import HeldUp, State, Transaction, decode, held_up, open_transactions
from headwater.schemas import records
from headwater.schemas.topics import Topic

THINGS = Topic("things", records.ObjectStored, "content hash", 3)


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [THINGS])
    return kafka


@pytest.fixture
def ours(kafka):
    def ours() -> list[Transaction]:
        return [
            one for one in open_transactions(kafka, time.time()) if one.transactional_id.startswith(kafka.config.prefix)
        ]

    return ours


def begin(kafka: Kafka, transactional_id: str, *partitions: int):
    producer = kafka.transactional_producer(transactional_id)
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(kafka.physical(THINGS), value=b"v", partition=partition)
    producer.flush(10)
    return producer


def test_an_open_transaction_is_seen_with_what_it_wrote_to_until_it_ends(kafka, ours, eventually):
    before = time.time()
    producer = begin(kafka, "writer", 0, 2)

    (seen,) = ours()

    assert seen.transactional_id == kafka.config.prefix + "writer"
    assert seen.state is State.ongoing
    assert set(seen.partitions) == {(kafka.physical(THINGS), 0), (kafka.physical(THINGS), 2)}
    assert seen.timeout_seconds == 10
    assert before - 1 <= seen.started_at <= time.time() + 1
    assert held_up(kafka, ["things"]) == [HeldUp("things", 0, 0, 1), HeldUp("things", 2, 0, 1)]

    producer.commit_transaction(30)
    eventually(lambda: ours() == [] and held_up(kafka, ["things"]) == [])


def test_of_two_the_older_one_comes_first_and_an_aborted_one_is_gone(kafka, ours, eventually):
    first, second = begin(kafka, "first", 0), begin(kafka, "second", 1)
    names = [one.transactional_id.removeprefix(kafka.config.prefix) for one in ours()]

    first.abort_transaction(30)

    assert names == ["first", "second"]
    eventually(lambda: [one.transactional_id for one in ours()] == [kafka.config.prefix + "second"])
    second.abort_transaction(30)


def test_the_version_that_older_brokers_write_is_read_too():
    topic = b"things"
    value = struct.pack(">hqhib", 0, 77, 3, 10_000, 1) + struct.pack(">i", 1) + struct.pack(">h", len(topic)) + topic
    value += struct.pack(">iii", 2, 0, 5) + struct.pack(">qq", 2_000, 1_500)

    assert decode("writer", value) == Transaction(
        "writer", 77, 3, State.ongoing, 10.0, 1.5, (("things", 0), ("things", 5))
    )


def test_an_id_without_a_transaction_has_no_partitions():
    for none in (struct.pack(">hqhib", 0, 77, 3, 10_000, 0) + struct.pack(">i", -1),
                 struct.pack(">hqhib", 1, 77, 3, 10_000, 0) + b"\x00"):  # fmt: skip
        decoded = decode("writer", none + struct.pack(">qq", 2_000, 1_500))

        assert (decoded.state, decoded.partitions, decoded.started_at) == (State.empty, (), 1.5)
