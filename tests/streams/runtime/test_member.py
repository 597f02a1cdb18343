"""A member among its records and the systems around it: poison, outages, settings, and what it tells about itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client import REGISTRY

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import (
    BadRecord,
    BadSettings,
    HeadwaterError,
    Refused,
    TopicMismatch,
    Transient,
    Unavailable,
)
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import DeadLetter, ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.streams.runtime import transaction
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.runtime.state import Phase

ORDERS = Topic("orders", ObjectStored, "hash", 4)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 4)
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Till:
    """Writes a receipt for each order, unless ``trouble`` raises for it."""

    reads = (ORDERS,)
    writes = (RECEIPTS,)
    limits = BatchLimits(records=20)

    def __init__(self, name: str, trouble: Callable[[int], None] = lambda _: None) -> None:
        self.name = name
        self.buried: list[tuple[int, str]] = []
        self._trouble = trouble

    def process(self, batch: Batch) -> Sequence[Output]:
        for one in batch.inputs:
            self._trouble(number(one))
        return [Output(RECEIPTS, one.record, cause=one) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        self.buried.append((dead.offset, str(error)))
        return []


def number(one: Input) -> int:
    assert isinstance(one.record, ObjectStored)
    return one.record.size


class ForgetfulKafka(Kafka):
    """Its first transaction that takes offsets forgets its time-out, as librdkafka does (#5456): the call does not
    return before ``returns`` is set."""

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.returns = Event()
        self.hung = Event()

    def transactional_producer(self, transactional_id: str) -> Any:
        producer = super().transactional_producer(transactional_id)
        return producer if self.hung.is_set() else Forgetful(producer, self)


class Forgetful:
    def __init__(self, producer: Any, kafka: ForgetfulKafka) -> None:
        self._producer = producer
        self._kafka = kafka

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send_offsets_to_transaction(self, *_: object) -> None:
        self._kafka.hung.set()
        assert self._kafka.returns.wait(60)


def test_a_transaction_that_never_answers_is_given_up_and_the_batch_is_committed_by_a_new_one(
    log: Any, tmp_path: Path, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "PATIENCE_SECONDS", 0.5)
    log.place_orders(range(20))
    log.kafka = ForgetfulKafka(log.kafka.config)
    try:
        with log.running(Till("forgotten"), tmp_path):
            eventually(lambda: log.receipt_numbers() == list(range(20)), within_seconds=20)
            eventually(lambda: sum(log.committed("forgotten").values()) == 20)
        assert log.kafka.hung.is_set()
    finally:
        log.kafka.returns.set()


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"headwater_{name}", labels) or 0.0


def test_a_poison_record_goes_to_dead_letters_and_its_neighbours_pass_in_order(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    def trouble(order: int) -> None:
        if order == 5:
            raise BadRecord("order 5 contradicts itself")

    orders = [log.order(n) for n in range(10)]
    log.write(ORDERS, [(order.key(), encode(order)) for order in orders], partition=2, color=b"red")
    till = Till("poisoned", trouble)

    with log.running(till, tmp_path):
        eventually(lambda: len(log.receipt_numbers()) == 9 and log.records(DEAD_LETTERS), within_seconds=20)

    [dead] = log.records(DEAD_LETTERS)
    assert isinstance(dead, DeadLetter)
    assert (dead.topic, dead.partition, dead.offset, dead.group) == ("orders", 2, 5, "poisoned")
    assert (dead.original_key, dead.value) == (orders[5].key(), encode(orders[5]))
    assert [(header.name, header.value) for header in dead.headers] == [("color", b"red")]
    assert (dead.error, dead.message) == ("BadRecord", "order 5 contradicts itself")
    assert "in trouble" in dead.stack
    assert dead.redrives == 0
    assert till.buried == [(5, "order 5 contradicts itself")]
    for partition in range(RECEIPTS.partitions):
        sizes = [decode(m.value()).size for m in log.messages(RECEIPTS) if m.partition() == partition]
        assert sizes == sorted(sizes)
    assert metric("group_dead_letters_total", group="poisoned") == 1


def test_an_unexpected_error_gets_five_tries_and_is_buried_with_its_stack(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    tries: list[int] = []

    def trouble(order: int) -> None:
        if order == 1:
            tries.append(order)
            raise KeyError("a fault of ours")

    log.place_orders(range(3))
    with log.running(Till("faulty", trouble), tmp_path):
        eventually(lambda: len(log.receipt_numbers()) == 2 and log.records(DEAD_LETTERS), within_seconds=20)

    [dead] = log.records(DEAD_LETTERS)
    assert "KeyError" in dead.message
    assert "raise KeyError" in dead.stack
    assert 5 <= len(tries) <= 6, "once in the batch it came with, five times alone"


def test_what_does_not_decode_goes_to_dead_letters_with_its_bytes_and_counts_its_redrives(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    log.write(ORDERS, [(b"key", b"\x00\x00\x00\x00\x03garbage")], **{"headwater-redrives": b"2"})
    log.write(ORDERS, [(b"key", None)])
    log.place_orders([7])

    till = Till("strict")
    with log.running(till, tmp_path):
        eventually(lambda: log.receipt_numbers() == [7] and len(log.records(DEAD_LETTERS)) == 2, within_seconds=20)

    dead = sorted(log.records(DEAD_LETTERS), key=lambda letter: letter.redrives)
    assert [(letter.original_key, letter.value) for letter in dead] == [
        (b"key", None),
        (b"key", b"\x00\x00\x00\x00\x03garbage"),
    ]
    assert [letter.redrives for letter in dead] == [0, 2]
    assert len(till.buried) == 2, "the processor is told of them too"


def test_a_poison_record_of_any_size_leaves_a_letter_that_fits_and_holds_up_nobody(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    value = b"garbage" * 130_000  # with key and header 990 KB: with its stack more than a client sends
    log.write(ORDERS, [(b"k" * 40_000, value)], trail=b"h" * 40_000)
    log.place_orders([7])

    with log.running(Till("burdened"), tmp_path):
        eventually(lambda: log.receipt_numbers() == [7] and log.records(DEAD_LETTERS), within_seconds=30)

    [dead] = log.records(DEAD_LETTERS)
    kept = len(dead.value) + len(dead.original_key) + sum(len(header.value) for header in dead.headers)
    assert value.startswith(dead.value)
    assert kept < 400_000
    assert kept + dead.cut_bytes == len(value) + 40_000 + 40_000 + len("trail")
    assert len(log.messages(DEAD_LETTERS)[0]) < 500_000


def test_an_input_that_is_passed_on_goes_as_it_came_and_is_not_decoded(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    class Pipe(Till):
        def process(self, batch: Batch) -> Sequence[Output]:
            return [Output(RECEIPTS, one) for one in batch.inputs]

    log.write(ORDERS, [(b"key", b"no record of ours"), (b"key", None)], color=b"red")
    with log.running(Pipe("pipe"), tmp_path):
        passed = eventually(lambda: found if len(found := log.messages(RECEIPTS)) == 2 else None, within_seconds=20)

    assert [(m.key(), m.value(), m.headers()) for m in passed] == [
        (b"key", b"no record of ours", [("color", b"red")]),
        (b"key", None, [("color", b"red")]),
    ]
    assert log.records(DEAD_LETTERS) == []


@pytest.mark.parametrize("error", [Unavailable("the store is away"), Refused("the key was revoked")])
def test_an_outage_is_waited_for_and_told_and_nothing_is_lost_or_dead(
    log: Any, tmp_path: Path, eventually: Callable[..., Any], error: HeadwaterError
) -> None:
    mended = Event()

    def trouble(_order: int) -> None:
        if not mended.is_set():
            raise error

    log.place_orders(range(30))
    name = f"waiting-{type(error).__name__}"
    with log.running(Till(name, trouble), tmp_path) as member:
        eventually(lambda: member.state().phase is Phase.degraded, within_seconds=20)
        assert member.state().reason == str(error)
        assert metric("group_state", group=name, phase="degraded") == 1
        eventually(lambda: metric("group_retries_total", group=name) > 3, within_seconds=20)
        mended.set()
        eventually(lambda: log.receipt_numbers() == list(range(30)), within_seconds=20)
        eventually(lambda: member.state().phase is Phase.running, within_seconds=20)

    assert log.records(DEAD_LETTERS) == []
    assert member.state().phase is Phase.stopped


def test_a_member_told_to_stop_in_an_outage_releases_its_batch(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    def trouble(_order: int) -> None:
        raise Transient("away for good")

    log.place_orders(range(3))
    with log.running(Till("released", trouble), tmp_path) as member:
        eventually(lambda: member.state().phase is Phase.degraded, within_seconds=20)
    assert log.committed("released") == {}


def test_outputs_carry_producer_event_time_and_the_trace_of_their_cause(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    log.place_orders([1], traceparent=TRACE)
    with log.running(Till("traced"), tmp_path):
        eventually(lambda: log.receipt_numbers() == [1], within_seconds=20)

    [message] = log.messages(RECEIPTS)
    headers = dict(message.headers())
    assert headers["traceparent"] == TRACE
    assert len(headers["headwater-producer"].split()) == 3
    assert abs(int(headers["headwater-event-time"]) / 1000 - message.timestamp()[1]) < 60_000


def test_a_group_that_has_read_everything_has_no_lag_behind_transaction_markers(
    log: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    producer = log.kafka.transactional_producer("feeder")
    producer.init_transactions(30)
    producer.begin_transaction()
    order = log.order(1)
    producer.produce(log.kafka.physical(ORDERS), encode(order), order.key(), 0)
    producer.commit_transaction(30)
    producer.close()

    def end(consumer: Consumer) -> int:
        return consumer.get_watermark_offsets(TopicPartition(log.kafka.physical(ORDERS), 0), timeout=10)[1]

    reader = log.kafka.consumer("onlooker")
    try:
        with log.running(Till("punctual"), tmp_path):
            eventually(lambda: log.committed("punctual").get(0) == end(reader) == 2, within_seconds=20)
    finally:
        reader.close()


def test_a_missing_topic_is_named_with_what_mends_it(log: Any, tmp_path: Path) -> None:
    till = Till("lost")
    till.writes = (Topic("nowhere", ObjectStored, "hash", 3),)
    with pytest.raises(TopicMismatch, match=r"topic nowhere is missing.*headwater topics apply"):
        Member(log.kafka, till, MemberConfig(slot_folder=tmp_path)).run()


def test_a_session_timeout_below_the_brokers_minimum_ends_the_member_naming_the_setting(
    log: Any, tmp_path: Path
) -> None:
    config = log.kafka.config
    hasty = Kafka(KafkaConfig(config.bootstrap_servers, config.prefix, client={"session.timeout.ms": 3000}))
    with pytest.raises(BadSettings, match=r"session\.timeout\.ms.*group\.min\.session\.timeout\.ms"):
        Member(hasty, Till("hasty"), MemberConfig(slot_folder=tmp_path)).run()


def test_no_broker_is_said_at_the_start_with_the_address(tmp_path: Path) -> None:
    nowhere = Kafka(KafkaConfig("127.0.0.1:1"))
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 does not answer.*HEADWATER_KAFKA"):
        Member(nowhere, Till("alone"), MemberConfig(slot_folder=tmp_path)).run()


def test_a_members_counters_are_at_zero_from_the_start_so_that_an_alert_sees_the_first_event() -> None:
    Member(Kafka(KafkaConfig("127.0.0.1:1")), Till("newborn"))
    for counted in ("records", "retries", "dead_letters"):
        assert REGISTRY.get_sample_value(f"headwater_group_{counted}_total", {"group": "newborn"}) == 0
