"""From the index to Kafka: every committed record at least once, in order, under the clock it was given.

A record leaves the index only after Kafka acknowledged it. A checkpoint says in every partition that each change up
to a seq came before it; so it is produced only once all of those are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Message

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.observe import logs, metrics
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.schemas import codec, topics
from headwater.schemas.records import ChangeKind, FileChange

log = logs.logger()

_IN_FLIGHT = 2_000
"""Records handed to the client and not acknowledged: enough to fill its batches, little enough to hold in memory."""


class Outbox:
    """Called from the agent's thread only; ``pump`` serves the client's callbacks."""

    def __init__(self, config: AgentConfig, kafka: Kafka, index: Index, clock: Callable[[], float]) -> None:
        self._config = config
        self._kafka = kafka
        self._index = index
        self._clock = clock
        self._producer = kafka.producer()
        self._changes = topics.fs_changes(config.site)
        self._cursor = 0
        self._in_flight = 0
        self._acknowledged: list[int] = []
        self._failed = False
        self._checkpoint_at = 0.0
        self._checkpoint_seq = -1
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why records wait, if they do."""
        if self._in_flight and self._kafka.silent_since() is not None:
            return f"no broker at {self._kafka.config.bootstrap_servers} answers"
        return self._trouble

    @property
    def is_empty(self) -> bool:
        """Does Kafka have everything that was recorded?"""
        return self._index.outbox.count == 0

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def pump(self) -> bool:
        """Produce what waits, as far as it fits, and forget what is acknowledged. True: something moved."""
        moved = self._produce()
        self._producer.poll(0)
        moved |= self._forget_acknowledged()
        if self._failed and self._in_flight == 0:
            # A fresh client, from the first record that Kafka does not have, in order.
            self._producer, self._failed, self._cursor = self._kafka.producer(), False, 0
        return moved

    def _produce(self) -> bool:
        room = _IN_FLIGHT - self._in_flight
        if self._failed or room <= 0:
            return False
        waiting = self._index.outbox.after(self._cursor, min(room, 500))
        for record in waiting:
            try:
                self._producer.produce(
                    self._kafka.physical(record.topic),
                    key=record.key,
                    value=record.value,
                    headers=event_headers(record.event_time_us),  # type: ignore[arg-type]  # stubs: invariant list
                    on_delivery=self._on_delivery(record.id),
                )
            except BufferError:
                break
            self._cursor = record.id
            self._in_flight += 1
        return bool(waiting)

    def _on_delivery(self, id: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _: Message) -> None:
            self._in_flight -= 1
            if error is None:
                self._acknowledged.append(id)
                self._trouble = None
                self._kafka.answered()
            else:
                self._failed = True
                self._note_trouble(error)

        return note

    def _note_trouble(self, error: KafkaError) -> None:
        if self._trouble is None:
            log.warning("outbox.waits", source=self._config.source, error=str(self._kafka.mapped(error)))
        self._trouble = error.str()

    def _forget_acknowledged(self) -> bool:
        if not self._acknowledged:
            return False
        done, self._acknowledged = self._acknowledged, []
        with self._index.transaction():
            self._index.outbox.remove(done)
        metrics.AGENT_RECORDS_SENT.labels(self._config.source).inc(len(done))
        return True

    def checkpoint(self, *, idle: bool) -> None:
        """Say how far everything is acknowledged: when idle at once, else every few seconds; never the same twice."""
        first = self._index.outbox.first_seq()
        seq = self._index.seq if first is None else first - 1
        now = monotonic()
        if seq <= self._checkpoint_seq or (not idle and now - self._checkpoint_at < self._config.checkpoint_seconds):
            return
        record = FileChange(
            source=self._config.source,
            path=b"",
            display="",
            epoch=self._index.epoch,
            seq=seq,
            kind=ChangeKind.checkpoint,
        )
        try:
            for partition in range(self._changes.partitions):
                self._producer.produce(
                    self._kafka.physical(self._changes),
                    key=record.key(),
                    value=codec.encode(record),
                    headers=event_headers(int(self._clock() * 1_000_000)),  # type: ignore[arg-type]  # stubs: invariant list
                    partition=partition,
                    on_delivery=self._on_checkpoint_delivery,
                )
                self._in_flight += 1
        except BufferError:
            return
        self._checkpoint_seq, self._checkpoint_at = seq, now

    def _on_checkpoint_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._in_flight -= 1
        if error is not None:
            self._checkpoint_seq = -1
            self._note_trouble(error)

    def close(self, seconds: float) -> None:
        """Wait a little for acknowledgements; what has none is produced again after the next start."""
        try:
            self._producer.flush(seconds)
        except KafkaException as error:
            log.warning("outbox.unflushed", source=self._config.source, error=str(self._kafka.mapped(error)))
        self._forget_acknowledged()
