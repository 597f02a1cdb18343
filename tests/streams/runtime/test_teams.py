"""Several members of one group under load: they are killed, join and leave, and every order has one receipt.

The receipts have other keys than the orders, so that they go to other partitions than those they were read from. The
member runs in a child process (this file, as a script). All members share one folder of slots.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from headwater.cli.service import run_until_signalled
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import HeadwaterError
from headwater.schemas.codec import encode
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import Topic
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output

ORDERS = Topic("many-orders", ObjectStored, "hash", 64)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 4)
COUNT = 6_000


class Till:
    """Writes a receipt under another key for each order. ``slow_at``: the order that takes for ever."""

    name = "till"
    writes = (RECEIPTS,)

    def __init__(self, orders: Topic, records: int, slow_at: int | None = None) -> None:
        self.reads = (orders,)
        self.limits = BatchLimits(records=records)
        self.assignments: set[int] = set()
        self._slow_at = slow_at

    def process(self, batch: Batch) -> Sequence[Output]:
        self.assignments.add(batch.assignment)
        receipts = []
        for one in batch.inputs:
            order = one.record
            assert isinstance(order, ObjectStored)
            if order.size == self._slow_at:
                time.sleep(3_600)
            receipts.append(Output(RECEIPTS, replace(order, hash=sha256(order.hash).digest()), cause=one))
        return receipts

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"nothing is to be buried: {dead} {error}")


def main() -> None:
    settings = json.loads(sys.argv[1])
    kafka = Kafka(KafkaConfig(settings["servers"], settings["prefix"]))
    orders = ORDERS if settings["many"] else replace(ORDERS, name="orders", partitions=4)
    till = Till(orders, settings["records"], settings["slow_at"])
    run_until_signalled(Member(kafka, till, MemberConfig(slot_folder=Path(settings["slots"]))))


Team = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def hire(log: Any, tmp_path: Path) -> Iterator[Team]:
    """Starts a member as a process."""
    started: list[subprocess.Popen[bytes]] = []

    def hire(*, many: bool = True, records: int = 50, slow_at: int | None = None) -> subprocess.Popen[bytes]:
        settings = {
            "servers": log.kafka.config.bootstrap_servers,
            "prefix": log.kafka.config.prefix,
            "slots": str(tmp_path / "slots"),
            "many": many,
            "records": records,
            "slow_at": slow_at,
        }
        with (tmp_path / f"{len(started)}.log").open("wb") as output:
            child = subprocess.Popen([sys.executable, __file__, json.dumps(settings)], stdout=output, stderr=output)
        started.append(child)
        return child

    yield hire
    for child in started:
        child.kill()
        child.wait()


@pytest.mark.fault
def test_members_that_are_killed_join_and_leave_under_load_write_each_receipt_once(
    log: Any, hire: Team, eventually: Callable[..., Any]
) -> None:
    topics.apply(log.kafka, (ORDERS,))

    def place(first: int) -> None:
        orders = [log.order(number) for number in range(first, first + COUNT // 3)]
        log.write(ORDERS, [(order.key(), encode(order)) for order in orders])

    def receipts_exceed(count: int) -> None:
        eventually(lambda: len(log.messages(RECEIPTS)) > count, within_seconds=90)

    place(0)
    first, second = hire(), hire()
    receipts_exceed(0)
    first.kill()
    place(COUNT // 3)
    third = hire()
    receipts_exceed(COUNT // 3)
    second.send_signal(signal.SIGTERM)
    place(2 * COUNT // 3)
    assert second.wait(60) == 0
    receipts_exceed(2 * COUNT // 3)
    third.kill()
    hire()
    eventually(lambda: len(log.messages(RECEIPTS)) >= COUNT, within_seconds=90)

    numbers = log.receipt_numbers()
    assert sum(numbers) == COUNT * (COUNT - 1) // 2
    assert numbers == list(range(COUNT))


@pytest.mark.fault
def test_a_member_killed_at_a_slow_record_is_followed_from_that_record_on(
    log: Any, hire: Team, eventually: Callable[..., Any]
) -> None:
    orders = [log.order(number) for number in range(10)]
    log.write(log.orders, [(order.key(), encode(order)) for order in orders], partition=1)
    slow = hire(many=False, records=1, slow_at=4)
    eventually(lambda: log.committed("till").get(1) == 4, within_seconds=60)
    assert log.receipt_numbers() == [0, 1, 2, 3], "what comes after it waits for it"

    slow.kill()
    hire(many=False)

    eventually(lambda: len(log.messages(RECEIPTS)) >= 10, within_seconds=60)
    assert log.receipt_numbers() == list(range(10))


class Employed:
    """A member in a thread of this process."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.till = Till(replace(ORDERS, name="orders", partitions=4), records=20)
        self.member = Member(kafka, self.till, MemberConfig(slot_folder=folder))
        self._thread = Thread(target=self.member.run, daemon=True)
        self._thread.start()

    def partitions(self) -> int:
        return len(self.member.state().partitions)

    def leave(self) -> None:
        self.member.stop()
        self._thread.join(40)
        assert not self._thread.is_alive()


def test_a_static_member_that_restarts_within_its_timeout_moves_no_partition(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    def named(instance: str) -> Kafka:
        client = {"group.instance.id": instance, "session.timeout.ms": 45_000}
        return Kafka(replace(log.kafka.config, client=client))

    staying, restarting = Employed(named("a"), tmp_path), Employed(named("b"), tmp_path)
    try:
        eventually(lambda: staying.partitions() == restarting.partitions() == 2, within_seconds=60)
        log.place_orders(range(40))
        eventually(lambda: len(log.messages(RECEIPTS)) == 40, within_seconds=30)
        kept = staying.member.state().partitions
        worked = set(staying.till.assignments)

        restarting.leave()
        restarting = Employed(named("b"), tmp_path)
        log.place_orders(range(40, 80))
        eventually(lambda: len(log.messages(RECEIPTS)) >= 80, within_seconds=30)

        assert staying.member.state().partitions == kept
        assert staying.till.assignments == worked, "it was never asked to rebalance"
        assert log.receipt_numbers() == list(range(80))
    finally:
        staying.leave()
        restarting.leave()


class HangingKafka(Kafka):
    """Its consumers stop polling when they are told to, as a process does whose consumer thread hangs."""

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.hang, self.go_on = Event(), Event()

    def consumer(self, group: str, **settings: Any) -> Any:
        return Hanging(super().consumer(group, **settings), self)


class Hanging:
    def __init__(self, consumer: Any, kafka: HangingKafka) -> None:
        self._consumer = consumer
        self._kafka = kafka

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, *arguments: Any) -> Any:
        if self._kafka.hang.is_set():
            assert self._kafka.go_on.wait(120)
        return self._consumer.consume(*arguments)


@pytest.mark.fault
def test_a_member_that_stops_polling_loses_its_partitions_within_its_poll_interval_and_repeats_nothing(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    poll_seconds = 7
    kafka = HangingKafka(replace(log.kafka.config, client={"max.poll.interval.ms": poll_seconds * 1_000}))
    hanging = Employed(kafka, tmp_path)
    try:
        eventually(lambda: hanging.partitions() == 4, within_seconds=60)
        log.place_orders(range(20))
        eventually(lambda: len(log.messages(RECEIPTS)) == 20, within_seconds=30)

        kafka.hang.set()
        peer = Employed(log.kafka, tmp_path)
        hung = time.monotonic()
        log.place_orders(range(20, 40))
        eventually(lambda: peer.partitions() == 4, within_seconds=60)
        assert time.monotonic() - hung < poll_seconds + 15, "a few seconds, and a busy machine"
        eventually(lambda: len(log.messages(RECEIPTS)) >= 40, within_seconds=30)

        kafka.go_on.set()
        kafka.hang.clear()
        eventually(lambda: hanging.partitions() == peer.partitions() == 2, within_seconds=60)
        log.place_orders(range(40, 60))
        eventually(lambda: len(log.messages(RECEIPTS)) >= 60, within_seconds=30)
        assert log.receipt_numbers() == list(range(60))
        peer.leave()
    finally:
        kafka.go_on.set()
        hanging.leave()


if __name__ == "__main__":
    main()
