"""What Kafka's own log of commits tells, against what was committed here and when."""

import time

import pytest
from confluent_kafka import TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.commits import commits
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.lag import group_lags
from headwater.connectors.kafka.lag_history import lag_history
from headwater.rules.lag import Sample
from headwater.schemas import records
from headwater.schemas.topics import Topic

THINGS = Topic("things", records.ObjectStored, "content hash", 2)


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [THINGS])
    return kafka


def produce(kafka: Kafka, count: int, *, at: float, partition: int = 0) -> None:
    producer = kafka.producer()
    for _ in range(count):
        producer.produce(kafka.physical(THINGS), value=b"v", partition=partition, timestamp=int(at * 1000))
    producer.flush(10)


def commit(kafka: Kafka, group: str, offset: int, partition: int = 0) -> None:
    consumer = kafka.consumer(group)
    consumer.commit(offsets=[TopicPartition(kafka.physical(THINGS), partition, offset)], asynchronous=False)
    consumer.close()


@pytest.fixture
def history(kafka, eventually):
    """The samples; another test's transaction may hide Kafka's log for a while."""

    def history(now: float) -> dict[tuple[str, str, int], list[Sample]]:
        return eventually(lambda: lag_history(kafka, group_lags(kafka, now), now), within_seconds=30)

    return history


# The names' hashes spread over the partitions of Kafka's log; one of them begins with a character beyond ASCII.
@pytest.mark.parametrize("group", ["readers", "verify-objects", "upload-files.lab-2", "ü-groß", "a" * 200])
def test_the_commits_of_a_group_are_found_whatever_its_name(kafka, group, eventually):
    before = time.time()
    produce(kafka, 3, at=before)
    commit(kafka, group, 1)
    commit(kafka, group, 3)
    commit(kafka, "another", 2)

    found = eventually(lambda: commits(kafka, {kafka.group(group)}, before - 1), within_seconds=30)

    assert list(found) == [kafka.group(group)]
    made = found[kafka.group(group)][kafka.physical(THINGS), 0]
    assert [one.offset for one in made] == [1, 3]
    assert before - 1 <= made[0].at <= made[1].at <= time.time() + 1


def test_commits_of_transactions_are_found_and_aborted_ones_are_not(kafka, eventually):
    produce(kafka, 3, at=time.time())
    consumer, producer = kafka.consumer("readers"), kafka.transactional_producer("writer")
    consumer.subscribe([kafka.physical(THINGS)])
    eventually(lambda: consumer.poll(0.1) and consumer.assignment(), within_seconds=30)
    producer.init_transactions(30)
    for offset, ending in ((2, producer.commit_transaction), (3, producer.abort_transaction)):
        producer.begin_transaction()
        at = TopicPartition(kafka.physical(THINGS), 0, offset)
        producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 30)
        ending(30)
    consumer.close()

    def found() -> list[int]:
        made = commits(kafka, {kafka.group("readers")}, time.time() - 60).get(kafka.group("readers"), {})
        return [one.offset for one in made.get((kafka.physical(THINGS), 0), [])]

    eventually(lambda: found() == [2], within_seconds=30)


def test_the_first_sample_is_the_first_commit_with_the_end_of_that_time(kafka, history):
    now = time.time()
    produce(kafka, 10, at=now - 100)
    commit(kafka, "readers", 4)
    produce(kafka, 5, at=now + 100)  # after the commit
    commit(kafka, "readers", 6)

    first, last = history(now)["readers", "things", 0]

    assert (first.committed, first.end, last.committed, last.end) == (4, 10, 6, 10)


def test_a_group_that_did_not_commit_in_the_window_stood_where_it_stands(kafka, history):
    ago = time.time() - 7200
    produce(kafka, 10, at=ago)
    commit(kafka, "readers", 4)
    in_an_hour = time.time() + 3600  # as if an hour had passed since the commit
    produce(kafka, 3, at=in_an_hour - 10)

    (begin,) = history(in_an_hour)["readers", "things", 0]

    assert begin == Sample(in_an_hour - 300, 4, 10)


def test_a_group_that_was_set_back_shows_it(kafka, history):
    produce(kafka, 10, at=time.time())
    for offset in (2, 9, 1, 3):
        commit(kafka, "readers", offset)

    samples = history(time.time())["readers", "things", 0]

    assert [one.committed for one in samples] == [2, 9, 1, 3]


def test_what_was_committed_after_the_measurement_is_no_step_back(kafka, eventually):
    produce(kafka, 10, at=time.time())
    commit(kafka, "readers", 2)
    commit(kafka, "readers", 4)
    measured, now = group_lags(kafka, time.time()), time.time()
    commit(kafka, "readers", 9)

    samples = eventually(lambda: lag_history(kafka, measured, now), within_seconds=30)["readers", "things", 0]

    assert [one.committed for one in samples] == [2, 4]


def test_two_groups_and_two_partitions_are_kept_apart(kafka, history):
    produce(kafka, 10, at=time.time())
    produce(kafka, 10, at=time.time(), partition=1)
    commit(kafka, "first", 1)
    commit(kafka, "first", 2, partition=1)
    commit(kafka, "second", 3)

    found = history(time.time())

    assert {of: samples[-1].committed for of, samples in found.items()} == {
        ("first", "things", 0): 1,
        ("first", "things", 1): 2,
        ("second", "things", 0): 3,
    }


def test_a_group_whose_commits_a_hanging_transaction_hides_is_left_out(kafka, eventually):
    produce(kafka, 3, at=time.time())
    commit(kafka, "readers", 1)
    consumer, producer = kafka.consumer("readers"), kafka.transactional_producer("writer")
    consumer.subscribe([kafka.physical(THINGS)])
    eventually(lambda: consumer.poll(0.1) and consumer.assignment(), within_seconds=30)
    producer.init_transactions(30)
    producer.begin_transaction()
    at = TopicPartition(kafka.physical(THINGS), 0, 2)
    producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 30)

    hidden = commits(kafka, {kafka.group("readers")}, time.time() - 60)

    assert hidden == {}
    assert lag_history(kafka, group_lags(kafka, time.time()), time.time()) == {}
    producer.abort_transaction(30)
    consumer.close()
