"""log-loop: records/s through the runtime with an empty step, beside a bare transactional loop, batches of 500.

Both read the same records from the same topic in a group of their own and write each of them to another topic, key,
bytes and headers, by the same client settings and the same order of calls: begin, produce, flush, offsets, commit. The
empty step returns its inputs. Beside them the same pair with a step that looks: each record is decoded and encoded
again, with headers of its own. The four take turns; medians of rates, of each round's ratio, and of the CPU seconds of
this process per million records (on a busy machine these say more). The time to join the group does not count.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from confluent_kafka import Message, TopicPartition

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.headers import HeaderList, event_headers
from headwater.observe import metrics
from headwater.rules.errors import HeadwaterError
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.stack.addresses import Addresses
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.garbage import spare_collector
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output

SOURCE = Topic("bench.source", ObjectStored, "content hash", 4)
SINK = Topic("bench.sink", ObjectStored, "content hash", 4)
BATCH = 500
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    records: int
    rounds: int


FULL = Size(records=200_000, rounds=7)
QUICK = Size(records=40_000, rounds=5)


Passed = tuple[bytes, HeaderList]
"""A value and its headers."""


class Relay:
    """The empty step: every input goes on as it came. ``looks``: it is decoded, and encoded again."""

    reads = (SOURCE,)
    writes = (SINK,)
    limits = BatchLimits(records=BATCH)

    def __init__(self, name: str, looks: bool) -> None:
        self.name = name
        self.looks = looks
        self.began = self.cpu = 0.0

    def process(self, batch: Batch) -> Sequence[Output]:
        if not self.began:
            self.began, self.cpu = time.perf_counter(), time.process_time()
        return [Output(SINK, one.record if self.looks else one) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"every record decodes: {dead}") from error


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one pass over all records: from the first batch to the last commit, and the CPU seconds of this process."""

    seconds: float
    cpu_seconds: float


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    size = QUICK if quick else FULL
    kafka = Kafka(KafkaConfig(addresses.kafka, prefix=f"bench-{uuid.uuid4().hex[:8]}."))
    topics.apply(kafka, (SOURCE, SINK, DEAD_LETTERS))
    fill(kafka, size.records)
    spare_collector()  # as a member's process does; the bare loops gain by it too
    loops: dict[str, Callable[[str], Cost]] = {
        "bare": lambda group: bare(kafka, group, size.records, pass_on),
        "runtime": lambda group: runtime(kafka, group, size.records, looks=False),
        "bare_typed": lambda group: bare(kafka, group, size.records, decode_and_encode),
        "runtime_typed": lambda group: runtime(kafka, group, size.records, looks=True),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in loops}
    for number in range(size.rounds):
        for name, loop in loops.items():
            costs[name].append(loop(f"{name}-{uuid.uuid4().hex[:8]}"))
        rates = "  ".join(f"{name} {size.records / costs[name][-1].seconds:,.0f}/s" for name in loops)
        print(f"round {number + 1}: {rates}", flush=True)
    rate = {name: size.records / statistics.median(one.seconds for one in found) for name, found in costs.items()}
    cpu = {name: statistics.median(one.cpu_seconds for one in found) for name, found in costs.items()}
    return {
        "bare_msgs_per_s": round(rate["bare"]),
        "runtime_msgs_per_s": round(rate["runtime"]),
        "ratio": ratio(costs["runtime"], costs["bare"]),
        "bare_typed_msgs_per_s": round(rate["bare_typed"]),
        "runtime_typed_msgs_per_s": round(rate["runtime_typed"]),
        "ratio_typed": ratio(costs["runtime_typed"], costs["bare_typed"]),
        "cpu_s_per_million": {name: round(seconds / size.records * 1e6, 1) for name, seconds in cpu.items()},
        "records": size.records,
        "rounds": size.rounds,
        "batch": BATCH,
    }


def ratio(ours: Sequence[Cost], theirs: Sequence[Cost]) -> float:
    """Median of each round's ratio of rates: what else the machine does changes between rounds, less within one."""
    return round(statistics.median(b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True)), 3)


def pass_on(message: Message) -> Passed:
    return message.value(), message.headers()  # type: ignore[return-value]


def decode_and_encode(message: Message) -> Passed:
    return encode(decode(message.value())), event_headers(time.time_ns() // 1_000)  # type: ignore[arg-type]


def fill(kafka: Kafka, records: int) -> None:
    producer = kafka.producer(queue_buffering_max_messages=records + 1)
    for number in range(records):
        record = ObjectStored(hash=number.to_bytes(32, "little"), generation=1, size=number, source="bench")
        producer.produce(kafka.physical(SOURCE), encode(record), record.key(), headers=event_headers(number))
    producer.flush()
    producer.close()


def bare(kafka: Kafka, group: str, records: int, transform: Callable[[Message], Passed]) -> Cost:
    producer = kafka.transactional_producer(group)
    producer.init_transactions(_SECONDS)
    consumer = kafka.consumer(group)
    consumer.subscribe([kafka.physical(SOURCE)])
    sink = kafka.physical(SINK)
    done, began, cpu = 0, 0.0, 0.0
    while done < records:
        messages = consumer.consume(BATCH, 0.05)
        if not messages:
            continue
        membership = consumer.consumer_group_metadata()
        began, cpu = began or time.perf_counter(), cpu or time.process_time()
        producer.begin_transaction()
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            if message.error():
                raise kafka.mapped(message.error())
            value, headers = transform(message)
            producer.produce(sink, value, message.key(), headers=headers)
            offsets[message.topic(), message.partition()] = message.offset() + 1
        producer.flush(_SECONDS)
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        producer.send_offsets_to_transaction(positions, membership, _SECONDS)
        producer.commit_transaction(_SECONDS)
        done += len(messages)
    cost = Cost(time.perf_counter() - began, time.process_time() - cpu)
    consumer.close()
    producer.close()
    return cost


def runtime(kafka: Kafka, group: str, records: int, *, looks: bool) -> Cost:
    """From the first batch's step to the commit of the last."""
    relay = Relay(group, looks)
    with tempfile.TemporaryDirectory() as slots:
        member = Member(kafka, relay, MemberConfig(slot_folder=Path(slots)))
        thread = Thread(target=member.run, name=group)
        thread.start()
        while committed(group) < records:
            time.sleep(0.01)
        cost = Cost(time.perf_counter() - relay.began, time.process_time() - relay.cpu)
        member.stop()
        thread.join()
    return cost


def committed(group: str) -> float:
    """Records that the group committed, by its own metric."""
    [counted] = metrics.GROUP_RECORDS.labels(group).collect()
    return counted.samples[0].value
