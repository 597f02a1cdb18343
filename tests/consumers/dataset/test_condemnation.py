"""Objects that are broken behind our back are condemned, and their sources asked for what they hold."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.consumers.dataset.condemnation import condemn
from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.verification import verify
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.codec import decode
from headwater.schemas.records import RequestReason, SyncRequest
from headwater.schemas.topics import SYNC_REQUESTS
from headwater.stack.addresses import Addresses
from headwater.stack.s3 import client


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, (SYNC_REQUESTS,))
    return kafka


def requests(kafka: Kafka) -> list[SyncRequest]:
    """Everything that was asked of sources."""
    consumer = kafka.consumer("reader", enable_partition_eof=True)
    topic = kafka.physical(SYNC_REQUESTS)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(SYNC_REQUESTS.partitions)])
    found, open_ends = [], SYNC_REQUESTS.partitions
    while open_ends:
        message = consumer.poll(10)
        assert message is not None
        if (error := message.error()) is None:
            record = decode(message.value())  # type: ignore[arg-type]
            assert isinstance(record, SyncRequest)
            found.append(record)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_ends -= 1
    consumer.close()
    return found


def lose(world: Any, content: bytes) -> None:
    """Somebody deletes the object in S3."""
    s3 = client(world.addresses.bucket)
    s3.delete_object(Bucket=urlsplit(world.addresses.bucket).path.strip("/"), Key=object_key(content_hash(content), 1))
    s3.close()


def state(world: Any, content: bytes) -> str:
    with world.catalog.transaction() as transaction:
        row = transaction.execute(
            "SELECT state FROM objects WHERE hash = %s AND generation = 1", [content_hash(content)]
        ).fetchone()
    return str(row[0])


def test_a_lost_object_is_condemned_and_each_path_that_needs_it_is_asked_for(
    world: Any, dataset: Dataset, kafka: Kafka
) -> None:
    # given a version of which one object is lost, which two paths have, and one spoiled
    world.write(b"a", b"one")
    world.write(b"twin", b"one")
    world.write(b"b", b"two")
    world.write(b"whole", b"three")
    world.checkpoint()
    world.commit()
    lose(world, b"one")
    world.objects.put(object_key(content_hash(b"two"), 1), b"owt")
    found = verify(dataset, "v1", deep=True)
    # when it is acted upon
    done = condemn(dataset, kafka, found.broken)
    # then those two are condemned, and no other
    assert (done.objects, len(done.asked), done.lost) == (2, 3, 0)
    assert [state(world, content) for content in (b"one", b"two", b"three")] == ["condemned", "condemned", "verified"]
    asked = requests(kafka)
    assert sorted((one.source, one.path) for one in asked) == [("films", b"a"), ("films", b"b"), ("films", b"twin")]
    assert {one.reason for one in asked} == {RequestReason.condemned}


def test_after_a_crash_between_the_steps_the_next_proof_asks(world: Any, dataset: Dataset, kafka: Kafka) -> None:
    world.write(b"a", b"one")
    world.checkpoint()
    world.commit()
    lose(world, b"one")
    broken = verify(dataset, "v1", deep=True).broken
    with world.catalog.transaction() as transaction:
        transaction.execute("UPDATE objects SET state = 'condemned' WHERE hash = %s", [content_hash(b"one")])

    condemn(dataset, kafka, broken)

    assert [one.path for one in requests(kafka)] == [b"a"]


def test_content_that_no_path_has_now_or_that_came_again_is_not_asked_for(
    world: Any, dataset: Dataset, kafka: Kafka
) -> None:
    # given a version with two lost objects: one whose file was deleted, one that was sent again meanwhile
    world.write(b"gone", b"one")
    world.write(b"again", b"two")
    world.checkpoint()
    world.commit()
    lose(world, b"one")
    lose(world, b"two")
    broken = verify(dataset, "v1", deep=True).broken
    world.delete(b"gone")
    with world.catalog.transaction() as transaction:
        transaction.execute("UPDATE objects SET state = 'condemned' WHERE hash = %s", [content_hash(b"two")])
    world.object_row(content_hash(b"two"), 3, "verified", generation=2)

    done = condemn(dataset, kafka, broken)

    assert (done.objects, done.asked, done.lost) == (2, (), 1)
    assert requests(kafka) == []
    assert state(world, b"one") == "condemned"
