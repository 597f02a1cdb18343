"""Upload and verify as members of their consumer groups: the whole way of a file's bytes over a real log."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import ChangeKind, FileType, ObjectStored, ObjectVerified, Record
from headwater.schemas.topics import (
    SYNC_OBJECTS,
    SYNC_OBJECTS_LARGE,
    SYNC_VERIFIED,
    Topic,
    catalogue,
    fs_changes,
    fs_parts,
)
from headwater.stack.addresses import Addresses
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Processor
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.parts_lane import PartsLane
from headwater.streams.verify.config import VerifyConfig
from headwater.streams.verify.verifier import Verifier

World = Any
SITE = "here"
PART = 5 * 1024 * 1024


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, catalogue((SITE,)))
    return kafka


def write(kafka: Kafka, topic: Topic, *records: Record, partition: int = -1) -> None:
    producer = kafka.producer()
    for record in records:
        producer.produce(kafka.physical(topic), encode(record), record.key(), partition)
    assert producer.flush(30) == 0
    producer.close()


def read(kafka: Kafka, topic: Topic) -> list[Record]:
    """Everything that a reader of committed records sees now."""
    consumer = kafka.consumer("reader", enable_partition_eof=True)
    consumer.assign([TopicPartition(kafka.physical(topic), number, 0) for number in range(topic.partitions)])
    records: list[Record] = []
    open_ends = topic.partitions
    while open_ends:
        message = consumer.poll(10)
        assert message is not None
        error = message.error()
        if error is None:
            records.append(decode(message.value()))  # type: ignore[arg-type]
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_ends -= 1
    consumer.close()
    return records


@contextmanager
def running(kafka: Kafka, folder: Path, *processors: Processor) -> Iterator[None]:
    members = [Member(kafka, processor, MemberConfig(slot_folder=folder)) for processor in processors]
    threads = [threading.Thread(target=member.run, daemon=True) for member in members]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for member in members:
            member.stop()
        for thread in threads:
            thread.join(60)


def states(world: World) -> Counter[str]:
    return Counter(str(state) for _, state in world.objects())


CHILD = """
import os, pickle, sys
order = pickle.load(sys.stdin.buffer)
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.upload.files_lane import FilesLane

original, calls = ObjectStore.put_whole, 0

def dying(self, *arguments):
    global calls
    outcome = original(self, *arguments)
    calls += 1
    if calls == order["puts"]:
        os.kill(os.getpid(), 9)
    return outcome

ObjectStore.put_whole = dying
catalog = Catalog(CatalogConfig(order["dsn"]))
lane = FilesLane(order["config"], catalog, ObjectStore(S3Config.from_url(order["s3"])))
Member(Kafka(order["kafka"]), lane, MemberConfig(slot_folder=order["folder"])).run()
"""


@pytest.mark.fault
def test_a_member_killed_while_it_sends_is_replaced_and_every_file_is_sent_and_announced_once(
    world: World, kafka: Kafka, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    names = [f"folder/{number}".encode() for number in range(60)]
    for name in names:
        world.write(name, b"content of " + name)
    write(kafka, fs_changes(SITE), *(world.change(name) for name in names))
    for partition in range(6):
        checkpoint = world.change(b"", ChangeKind.checkpoint, seq=60)
        write(kafka, fs_changes(SITE), checkpoint, partition=partition)

    order = {
        "dsn": world.dsn,
        "s3": world.s3_url,
        "kafka": kafka.config,
        "folder": tmp_path,
        "config": UploadConfig(site=SITE, transfers=1),
        "puts": 25,
    }
    child = subprocess.run([sys.executable, "-c", CHILD], input=pickle.dumps(order), timeout=60, check=False)
    assert child.returncode == -9
    assert states(world)["uploading"] > 0

    lane = FilesLane(UploadConfig(site=SITE), world.catalog, world.store)
    verifier = Verifier(VerifyConfig(), world.catalog, world.store)
    with running(kafka, tmp_path, lane, verifier):
        eventually(lambda: states(world)["verified"] == 60, within_seconds=60)
        eventually(lambda: len(world.query("SELECT 1 FROM checkpoints WHERE seq = 60")) == 6, within_seconds=30)

    assert len(world.passage.sent("PUT .*objects/")) == 60
    stored = Counter(record.hash for record in read(kafka, SYNC_OBJECTS) if isinstance(record, ObjectStored))
    verified = Counter(record.hash for record in read(kafka, SYNC_VERIFIED) if isinstance(record, ObjectVerified))
    assert stored == verified == Counter(content_hash(b"content of " + name) for name in names)
    lane.close()
    verifier.close()


def test_small_and_large_files_go_side_by_side_and_a_poison_record_holds_up_nobody(
    world: World, kafka: Kafka, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    film = random.Random(1).randbytes(2 * PART + 9)
    world.write(b"film.mp4", film)
    world.write(b"one", b"light")
    poison = world.change(b"../out", hash=b"x" * 32, size=1, file_type=FileType.regular)
    write(kafka, fs_changes(SITE), poison, world.change(b"one"), world.change(b"film.mp4", parts=3))
    write(kafka, fs_parts(SITE), *world.parts(b"film.mp4", PART))
    processors = (
        FilesLane(UploadConfig(site=SITE), world.catalog, world.store),
        PartsLane(UploadConfig(site=SITE), world.catalog, world.store),
        Verifier(VerifyConfig(), world.catalog, world.store),
        Verifier(VerifyConfig(), world.catalog, world.store, large=True),
    )
    with running(kafka, tmp_path, *processors):
        eventually(lambda: states(world)["verified"] == 2, within_seconds=60)
        eventually(lambda: world.query("SELECT 1 FROM exceptions WHERE active"), within_seconds=30)

    assert [record.parts for record in read(kafka, SYNC_OBJECTS_LARGE)] == [3]  # type: ignore[attr-defined]
    assert world.query("SELECT path FROM exceptions") == [(b"../out",)]
    assert world.store.get(object_key(content_hash(film), 1)) == film
    for processor in processors:
        processor.close()
