"""What the cloud side asks of this source: to look at a path again and to send it, whatever the index says.

Exactly one agent reads a source's requests, so partitions are assigned, not shared: the group only keeps offsets.
1. the requests are marked in the index;
2. the offsets are committed.
A crash between 1 and 2 reads them again: a mark twice is a mark once. Never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import OFFSET_STORED, KafkaException, Message, TopicPartition

from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs, metrics
from headwater.producers.filesystem.index import Index
from headwater.rules.errors import BadRecord
from headwater.schemas import codec, topics
from headwater.schemas.records import SyncRequest

log = logs.logger()

_BATCH = 500


class Requests:
    """Called from the agent's thread only."""

    def __init__(self, source: str, kafka: Kafka, index: Index, notice: Callable[[bytes], None]) -> None:
        self._source = source
        self._kafka = kafka
        self._index = index
        self._notice = notice
        self._consumer = kafka.consumer(f"agent.{source}")
        topic = kafka.physical(topics.SYNC_REQUESTS)
        partitions = range(topics.SYNC_REQUESTS.partitions)
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_STORED) for partition in partitions])

    def poll(self) -> bool:
        """Take what has arrived, without waiting. True: there was something."""
        messages = self._consumer.consume(_BATCH, timeout=0)
        arrived = [message for message in messages if message.error() is None]
        for message in messages:
            if (error := message.error()) is not None:
                log.warning("requests.wait", source=self._source, error=str(self._kafka.mapped(error)))
        if not arrived:
            return False
        self._mark(arrived)
        self._commit(arrived)
        return True

    def _mark(self, messages: list[Message]) -> None:
        with self._index.transaction():
            for message in messages:
                request = self._decoded(message)
                if request is None or request.source != self._source:
                    continue
                log.info("request.arrived", source=self._source, path=request.display, reason=request.reason.value)
                metrics.AGENT_REQUESTS.labels(self._source, request.reason.value).inc()
                self._index.requests.mark(request.path, request.reason.value)
                self._notice(request.path)

    def _decoded(self, message: Message) -> SyncRequest | None:
        try:
            record = codec.decode(message.value())
        except BadRecord as error:
            log.error("request.undecodable", source=self._source, offset=message.offset(), error=str(error))
            return None
        return record if isinstance(record, SyncRequest) else None

    def _commit(self, messages: list[Message]) -> None:
        try:
            for message in messages:
                self._consumer.store_offsets(message=message)
            self._consumer.commit(asynchronous=True)
        except KafkaException as error:
            log.warning("requests.uncommitted", source=self._source, error=str(self._kafka.mapped(error)))

    def close(self) -> None:
        self._consumer.close()
