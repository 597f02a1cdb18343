"""The broker's load against another program's batches, arithmetic, and what a real client's fetches weigh."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.rules.cast.chunks import MIB
from headwater.schemas import codec
from headwater.schemas.cast_records import CastAvailability
from headwater.schemas.topics import CAST_AVAILABILITY, CAST_MANIFESTS, CAST_MEMBERS, CAST_RACKS
from headwater.simulator import broker
from headwater.simulator.broker import (
    GATHERED,
    PROMPT,
    Fetching,
    availability,
    batch_bytes,
    busiest,
    by_second,
    join_bytes,
)
from headwater.simulator.scenario import Scenario

SMALL = Scenario(hosts=4, racks=2, size_bytes=16 * MIB, chunk_bytes=MIB, hash_bytes_per_second=8 * MIB)


def outcome(*seconds):
    """Samples of the first rack: for each second the chunks that each of its hosts has."""
    return SimpleNamespace(samples=np.packbits(np.array(seconds, np.bool_), axis=2))


def having(*counts, of=16):
    return [[chunk < count for chunk in range(of)] for count in counts]


def steady(scenario):
    """Each second the fleet gets what the links carry; hosts differ in a window of 200 chunks, by chance."""
    count, chance = scenario.chunks.count, np.random.default_rng(7)
    lead = np.arange(0, count + 201, scenario.nic_bytes_per_second / scenario.chunk_bytes)[1:, None, None]
    likely = np.clip((lead - np.arange(count)) / 200, 0, 1)
    return outcome(*(chance.random((len(likely), broker.rack_hosts(scenario), count)) < likely))


@given(
    st.lists(
        st.builds(
            CastAvailability,
            epoch=st.integers(0, 2**40),
            number=st.integers(0, 2**40),
            incarnation=st.integers(0, 2**62),
            sequence=st.integers(0, 2**31 - 1),
            base=st.none() | st.integers(0, 2**31 - 1),
            bits=st.binary(max_size=9000),
            chunks=st.integers(0, 65_536),
            bytes_per_second=st.integers(0, 2**40),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_batch_is_as_long_as_another_client_makes_it(records):
    built = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10**9)
    for offset, record in enumerate(records):
        built.append(offset, 0, record.key(), codec.encode(record), [])

    assert batch_bytes(records) == len(built.build())


def test_a_peer_says_what_came_and_every_tenth_time_all():
    seconds = [having(second, second + 1, of=64) for second in range(1, 21)]
    scenario = replace(SMALL, size_bytes=64 * MIB)
    said = []
    before = np.zeros((2, 64), np.bool_)
    for second, now in enumerate(np.array(seconds)):
        said.append(availability(scenario, before, now, second))
        before = now

    assert [records[0].sequence for records in said if records[0].base is None] == [0, 10]
    assert [records[1].sequence for records in said if records[1].base is None] == [9, 19]
    assert {records[0].base for records in said if records[0].base is not None} == set(range(19)) - {9}


def test_whoever_is_complete_says_so_once():
    found = by_second(SMALL, outcome(having(16, 8), having(16, 16), having(16, 16)))

    assert [load.flows[0].records for load in found] == [4, 2, 0]


def test_hosts_read_their_rack_the_summaries_and_the_manifest():
    load = by_second(SMALL, outcome(having(3, 4)))[0]
    said, summaries, hashes = load.flows

    assert said.read_bytes == said.written_bytes * (2 + 1)  # each rack-mate, and the gossip
    assert summaries.read_bytes == summaries.written_bytes * 4
    assert hashes.read_bytes == hashes.written_bytes * 4
    assert hashes.records == 8  # a chunk takes longer to hash than a record waits
    assert load.fetches == 4 * (8 + 2)
    assert load.read_bytes == pytest.approx(
        sum(flow.read_bytes for flow in load.flows) + 4 * (8 * PROMPT.empty_bytes + 2 * GATHERED.empty_bytes)
    )


def test_a_thousand_hosts_cost_the_broker_less_than_80_mb_a_second():
    scenario = Scenario()
    found = by_second(scenario, steady(scenario))
    load = max(found, key=lambda load: load.read_bytes)

    assert load == busiest(scenario, steady(scenario))
    assert load.read_bytes <= 80e6
    assert max(second.fetches for second in found) <= 25_000  # while the origin hashes 12 GB/s: 20 records a second
    assert found[-1].fetches == 4000
    assert load.written_bytes < 1e6


def test_one_consumer_of_everything_would_cost_more():
    """What ``GATHERED`` is for: each of a rack's forty records would be fetched alone, with 67 partitions named."""
    eager = Fetching(topics=4, partitions=67, min_bytes=1, wait_seconds=0.5)

    assert eager.per_second(records=41, read_bytes=20_000) * eager.empty_bytes * 1000 > 80e6


def test_a_join_storm_is_read_once():
    assert join_bytes(replace(SMALL, hosts=20)) == 100 * join_bytes(replace(SMALL, hosts=2, racks=1))
    assert 150e6 < join_bytes(Scenario()) < 250e6


@pytest.mark.stack
@pytest.mark.parametrize(
    ("fetching", "topics"),
    [
        (PROMPT, [CAST_MANIFESTS]),
        (GATHERED, [CAST_MEMBERS, replace(CAST_AVAILABILITY, partitions=1), CAST_RACKS]),
    ],
)
def test_an_answer_without_records_is_as_long_as_a_real_one(fetching, topics, stack, kafka_prefix, eventually):
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    apply(kafka, topics)
    counted = []
    consumer = Consumer({
        "bootstrap.servers": stack.kafka,
        "group.id": kafka.group("peer"),
        "fetch.wait.max.ms": 20,
        "statistics.interval.ms": 100,
        "topic.metadata.refresh.interval.ms": -1,
        "stats_cb": lambda text: counted.append(answers(text)),
    })  # fmt: skip
    consumer.assign(
        [TopicPartition(kafka.physical(topic), part) for topic in topics for part in range(topic.partitions)]
    )
    assert sum(topic.partitions for topic in topics) == fetching.partitions

    def many():
        consumer.consume(100, 0.1)
        steady = [(fetches, received) for fetches, received in counted if fetches > 10]
        return steady if steady and steady[-1][0] > 110 else None

    (fetches, received), *_, (fetches_later, received_later) = eventually(many, 30)
    consumer.close()
    assert (received_later - received) / (fetches_later - fetches) == pytest.approx(fetching.empty_bytes, rel=0.1)


def answers(text):
    """Fetches sent, and bytes received from all brokers, as the client itself counts them."""
    brokers = json.loads(text)["brokers"].values()
    return sum(broker["req"].get("Fetch", 0) for broker in brokers), sum(broker["rxbytes"] for broker in brokers)
