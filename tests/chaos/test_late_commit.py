"""librdkafka's clients do not speak transactions v2: a commit that is late on the wire must not touch the next one.

A proxy holds the request that commits (EndTxn) back for longer than the member waits for its answer. The member makes a
producer anew and repeats the batch; the late request arrives in the middle of that.
"""

from __future__ import annotations

import asyncio
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from chaos.proxy import HOST, Proxy
from chaos.servers import ProxiedKafka
from confluent_kafka import Consumer

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import HeadwaterError
from headwater.schemas.codec import encode
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.stack import processes
from headwater.stack.description import Ports
from headwater.stack.home import Place
from headwater.stack.progress import silent
from headwater.stack.secrets import Secrets
from headwater.stack.server import wait_until_it_answers
from headwater.streams.runtime import transaction
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output

pytestmark = [pytest.mark.stack, pytest.mark.fault]

ORDERS = Topic("orders", ObjectStored, "hash", 1)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 1)
END_TXN = 26
"""Its api key: https://kafka.apache.org/protocol#protocol_api_keys"""
CLIENT_SECONDS = 2
LATE_SECONDS = 5.0
COUNT = 40


class Till:
    name = "till"
    reads = (ORDERS,)
    writes = (RECEIPTS,)
    limits = BatchLimits(records=10)

    def process(self, batch: Batch) -> Sequence[Output]:
        return [Output(RECEIPTS, one) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"nothing is to be buried: {dead} {error}")


class LateCommit:
    """Delays the second EndTxn that passes the proxy, and only that."""

    def __init__(self) -> None:
        self.proxy: Proxy | None = None
        self.commits = 0
        self.arrives_at = 0.0

    def sent(self, data: bytes) -> None:
        if len(data) < 8 or struct.unpack_from(">h", data, 4)[0] != END_TXN:
            return
        self.commits += 1
        if self.commits == 2 and self.proxy is not None:
            self.proxy.delay(LATE_SECONDS)
            self.arrives_at = time.monotonic() + LATE_SECONDS
            asyncio.get_running_loop().call_soon(self.proxy.heal)  # for this piece only

    def answered(self, data: bytes) -> None:
        """Nothing is of interest."""


@pytest.fixture
def late(stack: object) -> LateCommit:  # noqa: ARG001  # its programs are fetched
    return LateCommit()


@pytest.fixture
def kafka(late: LateCommit, tmp_path: Path) -> Iterator[Kafka]:
    """A broker of this test's own that is reached through the proxy only."""
    home = tmp_path / "broker"
    home.mkdir()
    place = Place(home, Ports.free(), Secrets.of(home))
    outside = Ports.free().kafka
    late.proxy = Proxy(place.ports.kafka, outside, lambda: late)
    server = ProxiedKafka(outside)
    server.prepare(silent)
    server.start(place, place.addresses())
    try:
        wait_until_it_answers(server, place, place.addresses().kafka)
        yield Kafka(KafkaConfig(f"{HOST}:{outside}"))
    finally:
        processes.stop("kafka", place.home, polite=signal.SIGKILL)
        late.proxy.close()


def uncommitted(kafka: Kafka) -> int:
    """Receipts on the log, whoever may see them."""
    seen = 0
    consumer = Consumer({
        "bootstrap.servers": kafka.config.bootstrap_servers, "group.id": "onlooker", "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([RECEIPTS.name])
    while (message := consumer.poll(5)) is not None:
        seen += message.error() is None
    consumer.close()
    return seen


def test_a_commit_that_arrives_late_commits_nothing_twice_and_tears_nothing(
    kafka: Kafka, late: LateCommit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    monkeypatch.setattr(transaction, "TRANSACTION_SECONDS", CLIENT_SECONDS)
    topics.apply(kafka, (ORDERS, RECEIPTS, DEAD_LETTERS))
    producer = kafka.producer()
    placed: list[int] = []

    def place(count: int) -> None:
        for number in range(len(placed), len(placed) + count):
            order = ObjectStored(hash=number.to_bytes(32, "big"), generation=1, size=number, source="films")
            producer.produce(ORDERS.name, encode(order), order.key())
            placed.append(number)
        assert producer.flush(30) == 0

    place(COUNT)
    member = Member(kafka, Till(), MemberConfig(slot_folder=tmp_path, retry_most_seconds=0.5))
    thread = Thread(target=member.run, daemon=True)
    thread.start()

    def receipts() -> list[int]:
        return [seen.record.size for seen in browse(kafka, RECEIPTS.name, Start("beginning"))]  # type: ignore[union-attr]

    try:
        eventually(lambda: len(receipts()) >= COUNT, within_seconds=60)
        assert time.monotonic() < late.arrives_at, "it is still on its way: the producer was made anew"
        while time.monotonic() < late.arrives_at + 1:
            place(10)
            eventually(lambda: len(receipts()) >= len(placed), within_seconds=60)
        assert receipts() == placed, "each once, and in order"
        assert uncommitted(kafka) > len(placed), "a batch was aborted and repeated: the late commit did not take it"
    finally:
        member.stop()
        thread.join(40)
    assert not thread.is_alive()
