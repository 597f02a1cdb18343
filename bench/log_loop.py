"""log-loop: records/s through the runtime with an empty step, beside a bare transactional loop, batches of 500.

Both read the same records from the same topic in a group of their own and write each of them to another topic, by the
same client settings and the same order of calls: begin, produce, flush, offsets, commit. The bare loop passes the bytes
on; the runtime decodes each record, gives it to a processor that returns it, encodes it and adds its headers. The
loop named typed is the bare one with decoding and encoding: what any program that looks at its records pays.
The three take turns; medians. The time to join the group does not count.
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

from confluent_kafka import TopicPartition
from prometheus_client import REGISTRY

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import HeadwaterError
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.stack.addresses import Addresses
from headwater.streams.runtime.config import MemberConfig
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


class Relay:
    """The empty step."""

    reads = (SOURCE,)
    writes = (SINK,)
    limits = BatchLimits(records=BATCH)

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = 0.0

    def process(self, batch: Batch) -> Sequence[Output]:
        self.began = self.began or time.perf_counter()
        return [Output(SINK, one.record) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"every record decodes: {dead}") from error


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    size = QUICK if quick else FULL
    kafka = Kafka(KafkaConfig(addresses.kafka, prefix=f"bench-{uuid.uuid4().hex[:8]}."))
    topics.apply(kafka, (SOURCE, SINK, DEAD_LETTERS))
    fill(kafka, size.records)
    loops: dict[str, Callable[[str], float]] = {
        "bare": lambda group: bare(kafka, group, size.records, lambda value: value),
        "typed": lambda group: bare(kafka, group, size.records, lambda value: encode(decode(value))),
        "runtime": lambda group: runtime(kafka, group, size.records),
    }
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(size.rounds):
        for name, loop in loops.items():
            rates[name].append(size.records / loop(f"{name}-{uuid.uuid4().hex[:8]}"))
        print(f"round {number + 1}: " + "  ".join(f"{name} {rates[name][-1]:,.0f}/s" for name in loops), flush=True)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "bare_msgs_per_s": round(medians["bare"]),
        "runtime_msgs_per_s": round(medians["runtime"]),
        "ratio": round(medians["runtime"] / medians["bare"], 3),
        "typed_msgs_per_s": round(medians["typed"]),
        "ratio_typed": round(medians["runtime"] / medians["typed"], 3),
        "records": size.records,
        "rounds": size.rounds,
        "batch": BATCH,
    }


def fill(kafka: Kafka, records: int) -> None:
    producer = kafka.producer(queue_buffering_max_messages=records + 1)
    for number in range(records):
        record = ObjectStored(hash=number.to_bytes(32, "little"), generation=1, size=number, source="bench")
        producer.produce(kafka.physical(SOURCE), encode(record), record.key())
    producer.flush()
    producer.close()


def bare(kafka: Kafka, group: str, records: int, transform: Callable[[bytes], bytes]) -> float:
    """Seconds from the first batch to the last commit."""
    producer = kafka.transactional_producer(group)
    producer.init_transactions(_SECONDS)
    consumer = kafka.consumer(group)
    consumer.subscribe([kafka.physical(SOURCE)])
    sink = kafka.physical(SINK)
    done, began = 0, 0.0
    while done < records:
        messages = consumer.consume(BATCH, 0.05)
        if not messages:
            continue
        membership = consumer.consumer_group_metadata()
        began = began or time.perf_counter()
        producer.begin_transaction()
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            if message.error():
                raise kafka.mapped(message.error())
            producer.produce(sink, transform(message.value()), message.key())
            offsets[message.topic(), message.partition()] = message.offset() + 1
        producer.flush(_SECONDS)
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        producer.send_offsets_to_transaction(positions, membership, _SECONDS)
        producer.commit_transaction(_SECONDS)
        done += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    producer.close()
    return seconds


def runtime(kafka: Kafka, group: str, records: int) -> float:
    """Seconds from the first batch's step to the commit of the last."""
    relay = Relay(group)
    with tempfile.TemporaryDirectory() as slots:
        member = Member(kafka, relay, MemberConfig(slot_folder=Path(slots)))
        thread = Thread(target=member.run, name=group)
        thread.start()
        while committed(group) < records:
            time.sleep(0.02)  # each look collects every metric: seldom, so that it costs the loop nothing
        seconds = time.perf_counter() - relay.began
        member.stop()
        thread.join()
    return seconds


def committed(group: str) -> float:
    """Records that the group committed, by its own metric."""
    return REGISTRY.get_sample_value("headwater_group_records_total", {"group": group}) or 0.0
