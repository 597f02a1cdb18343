"""A member whose broker is killed under it, and comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import HeadwaterError
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import Topic
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.runtime.state import Phase

ORDERS = Topic("orders", ObjectStored, "hash", 4)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 4)
COUNT = 5_000


class Till:
    name = "steady"
    reads = (ORDERS,)
    writes = (RECEIPTS,)
    limits = BatchLimits(records=20)

    def process(self, batch: Batch) -> Sequence[Output]:
        return [Output(RECEIPTS, one.record) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"nothing is to be buried: {dead} {error}")


@pytest.fixture
def broker(stack: Addresses, tmp_path: Path) -> Iterator[Stack]:
    """A broker of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


@pytest.mark.fault
def test_a_killed_broker_is_waited_for_and_each_output_is_there_once(
    broker: Stack, make_log: Callable[..., Any], tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    kafka = Kafka(KafkaConfig(broker.addresses().kafka, prefix="own."))
    log = make_log(kafka)
    member = Member(kafka, Till(), MemberConfig(slot_folder=tmp_path, retry_most_seconds=1.0))
    thread = Thread(target=member.run, daemon=True)  # a hang fails this test, it does not keep the whole run
    thread.start()
    try:
        log.place_orders(range(COUNT))
        eventually(log.receipt_numbers, within_seconds=30)
        running = alive("kafka", broker.home)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)

        eventually(lambda: member.state().phase is Phase.degraded, within_seconds=30)
        assert kafka.config.bootstrap_servers in member.state().reason

        broker.up()
        log.place_orders(range(COUNT, COUNT + 10))
        eventually(lambda: len(log.receipt_numbers()) >= COUNT + 10, within_seconds=120)
        assert log.receipt_numbers() == list(range(COUNT + 10))
        eventually(lambda: member.state().phase is Phase.running, within_seconds=20)
    finally:
        member.stop()
        thread.join(40)
    assert not thread.is_alive()


RESTARTS = 3
"""Hours of them, scaled down: what a restart leaves behind is seen after two as well as after two hundred."""


@pytest.mark.fault
def test_restarts_of_the_broker_in_a_row_leave_a_member_that_works_and_does_not_grow(
    broker: Stack, make_log: Callable[..., Any], tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    kafka = Kafka(KafkaConfig(broker.addresses().kafka, prefix="own."))
    log = make_log(kafka)
    member = Member(kafka, Till(), MemberConfig(slot_folder=tmp_path, retry_most_seconds=1.0))
    thread = Thread(target=member.run, daemon=True)
    thread.start()
    this = psutil.Process()
    threads, memory = [], []
    try:
        for restart in range(RESTARTS):
            log.place_orders(range(restart * 100, restart * 100 + 100))
            eventually(lambda done=restart * 100 + 100: len(log.messages(RECEIPTS)) >= done, within_seconds=120)
            eventually(lambda: member.state().phase is Phase.running, within_seconds=60)
            threads.append(this.num_threads())
            memory.append(this.memory_info().rss)
            running = alive("kafka", broker.home)
            assert running is not None
            os.kill(running.pid, signal.SIGKILL)
            eventually(lambda: member.state().phase is Phase.degraded, within_seconds=60)
            broker.up()
        eventually(lambda: member.state().phase is Phase.running, within_seconds=120)
        assert log.receipt_numbers() == list(range(RESTARTS * 100))
    finally:
        member.stop()
        thread.join(40)
    assert not thread.is_alive()
    assert threads[-1] <= threads[0] + 2, "each client that was given up has ended"
    assert memory[-1] - memory[0] < 24 * 2**20
