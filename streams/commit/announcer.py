"""Tells the log that a version was published: one record a version on dataset.versions, whatever crashes.

The transactional id belongs to the dataset, so that ``init_transactions`` of a new committer ends what an older one
left open and makes its later writes fail. After that the topic's tail does not change under our hands: a record that
is not there is not on its way either.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.rules.errors import BadRecord, Fenced, NewerRecord, Unavailable
from headwater.schemas import codec
from headwater.schemas.records import DatasetVersion
from headwater.schemas.topics import DATASET_VERSIONS

_SECONDS = 30.0
_TAIL_RECORDS = 500
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class Announcer:
    """One dataset's writer of dataset.versions. Used from one thread."""

    def __init__(self, kafka: Kafka, dataset: str) -> None:
        self._kafka = kafka
        self._dataset = dataset
        self._producer: Producer | None = None

    def announce(self, record: DatasetVersion) -> None:
        """Write the record unless it is there. Safe to repeat. Raises Unavailable, Fenced, Refused, NewerRecord."""
        producer = self._producer or self._start()
        if self._is_announced(record.version):
            return
        headers: list[tuple[str, str | bytes | None]] = [*event_headers(time.time_ns() // 1_000)]
        try:
            producer.begin_transaction()
            producer.produce(
                self._kafka.physical(DATASET_VERSIONS),
                key=record.key(),
                value=codec.encode(record),
                headers=headers,
            )
            producer.commit_transaction(_SECONDS)
        except KafkaException as error:
            self._producer = None  # whatever the transaction's end, the next producer settles it
            raise self._mapped(error) from error

    def _start(self) -> Producer:
        producer = self._kafka.transactional_producer(f"commit.{self._dataset}")
        try:
            # Connected first: librdkafka looks for its coordinator at once then, and not half a second later.
            producer.list_topics(self._kafka.physical(DATASET_VERSIONS), timeout=_SECONDS)
            producer.init_transactions(_SECONDS)
        except KafkaException as error:
            raise self._mapped(error) from error
        self._producer = producer
        return producer

    def _is_announced(self, version: int) -> bool:
        """Is the version's record on the topic? Versions come in order: reading back to an earlier one is enough."""
        consumer = self._kafka.consumer(f"commit.{self._dataset}.tail", enable_partition_eof=True, fetch_wait_max_ms=20)
        try:
            partition = TopicPartition(self._kafka.physical(DATASET_VERSIONS), 0)
            low, high = consumer.get_watermark_offsets(partition, timeout=_SECONDS)
            records = _TAIL_RECORDS
            while True:
                start = max(low, high - records)
                seen = self._versions_between(consumer, partition.topic, start, high)
                if start == low or any(number <= version for number in seen):
                    return version in seen
                records *= 4
        except KafkaException as error:
            raise self._mapped(error) from error
        finally:
            consumer.close()

    def _versions_between(self, consumer: Consumer, topic: str, start: int, high: int) -> set[int]:
        """Numbers of this dataset's versions among the committed records from ``start`` up to ``high``."""
        seen: set[int] = set()
        if start >= high:
            return seen
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None:
                continue
            error, offset = message.error(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is None and message.key() == self._dataset.encode():
                seen |= _version_in(message.value())
            # At the end of the partition the offset is the next one to come, past the marks of transactions.
            if offset is not None and (offset if error else offset + 1) >= high:
                return seen
        raise Unavailable(
            f"the end of {topic} could not be read within {_SECONDS:.0f} s",
            kept="The version is published; only its announcement waits.",
            advice="Another committer's transaction may be open for some seconds; it is tried again.",
        )

    def _mapped(self, error: KafkaException) -> Exception:
        cause: Any = error.args[0]
        if cause.code() in _FENCED:
            return Fenced(
                f"another committer of the dataset {self._dataset} writes its announcements now",
                kept="Published versions are kept; the newer committer announces what is missing.",
                advice="Run one committer for each dataset; this one has stopped.",
            )
        return self._kafka.mapped(error, asked=f"Announcing a version of {self._dataset}.")


def _version_in(value: bytes | None) -> set[int]:
    """Raises NewerRecord: whether that is our version's announcement cannot be known."""
    try:
        record = codec.decode(value)
    except NewerRecord:
        raise
    except BadRecord:
        return set()
    return {record.version} if isinstance(record, DatasetVersion) else set()
