"""The gossip's consumer group on cast.availability: its members share the racks, by the partitions of their names.

Offsets are committed so that `headwater lag` can tell how far it is. They are not where reading begins: whoever is
given a partition reads its last ``BACK_SECONDS`` again, in which every peer of a running cast said all that it has.
"""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs, metrics
from headwater.schemas.topics import CAST_AVAILABILITY

GROUP = "gossip"
BACK_SECONDS = 15.0
"""Peers say all their chunks in every tenth record, one a second; the rest is for a log that is slow."""

_AT_A_TIME = 1_000


class AvailabilityGroup:
    """One member. ``held`` are its partitions. Not safe for threads."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._log = logs.logger()
        self._topic = kafka.physical(CAST_AVAILABILITY)
        self._positions: dict[int, int] = {}
        self._read_us: dict[int, int] = {}
        self._settling: set[int] = set()
        self._heard_at = time.monotonic()
        self._consumer: Consumer = kafka.consumer(GROUP, fetch_wait_max_ms=200)
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    @property
    def held(self) -> frozenset[int]:
        return frozenset(self._positions)

    def read(self, within_seconds: float) -> list[Message]:
        """What has come; serves rebalances. Raises what Kafka's errors are mapped to."""
        messages = []
        for message in self._consumer.consume(_AT_A_TIME, within_seconds):
            error, partition = message.error(), message.partition() or 0
            if error is not None:
                raise self._kafka.mapped(error, asked="The availability of peers was to be read.")
            if partition in self._positions:
                self._positions[partition] = (message.offset() or 0) + 1
                self._read_us[partition] = message.timestamp()[1] * 1_000
                messages.append(message)
        if messages:
            self._heard_at = time.monotonic()
        return messages

    def settled(self) -> bool:
        """Every partition held was read up to its end since it was given: what its hosts said lately is known."""
        self._settling = {partition for partition in self._settling if self._waiting(partition) != 0}
        return not self._settling

    def reached_us(self, now_us: int) -> int:
        """Up to which moment all partitions held were read: now, unless records wait in some."""
        return min((self._read_us[at] for at in self._positions if self._waiting(at) != 0), default=now_us)

    def commit(self) -> None:
        """Tell the group how far it is, without waiting for an answer; the next time says more."""
        if self._positions:
            offset_of = [TopicPartition(self._topic, partition, at) for partition, at in self._positions.items()]
            with suppress(KafkaException):
                self._consumer.commit(offsets=offset_of, asynchronous=True)

    def show_lag(self, now: float) -> None:
        oldest = now
        for partition in self._positions:
            waiting = self._waiting(partition)
            until = now if waiting == 0 else self._read_us[partition] / 1_000_000
            oldest = min(oldest, until)
            labels = (GROUP, CAST_AVAILABILITY.name, str(partition))
            metrics.GROUP_LAG_RECORDS.labels(*labels).set(waiting or 0)
            metrics.GROUP_LAG_SECONDS.labels(*labels).set(now - until)
        metrics.GROUP_OLDEST_EVENT_TIME.labels(GROUP).set(oldest)

    def quiet_seconds(self, now: float) -> float:
        """Since the last record; ``now`` is ``time.monotonic``."""
        return now - self._heard_at

    def broker_answers(self, within_seconds: float) -> bool:
        try:
            self._consumer.list_topics(self._topic, timeout=within_seconds)
        except KafkaException:
            return False
        return True

    def close(self) -> None:
        """Leave the group: its other members take over at once."""
        self._consumer.close()

    def _waiting(self, partition: int) -> int | None:
        """Records behind the end, as far as the last fetch knows; None before the first one."""
        place = TopicPartition(self._topic, partition)
        _, end = self._consumer.get_watermark_offsets(place, cached=True)
        return None if end < 0 else max(0, end - self._positions[partition])

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        back_ms = int((time.time() - BACK_SECONDS) * 1_000)
        starts = offsets.at_time(self._kafka, [(self._topic, at.partition) for at in partitions], back_ms)
        self._positions = {partition: offset for (_, partition), offset in starts.items()}
        self._read_us = dict.fromkeys(self._positions, back_ms * 1_000)
        self._settling = set(self._positions)
        consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        metrics.GROUP_REBALANCES.labels(GROUP).inc()
        self._log.info("gossip.assigned", partitions=len(partitions))

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.commit()
        self._lost(_consumer, _partitions)

    def _lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        """Eager: all of them go."""
        for partition in self._positions:
            for gauge in (metrics.GROUP_LAG_RECORDS, metrics.GROUP_LAG_SECONDS):
                with suppress(KeyError):  # never shown
                    gauge.remove(GROUP, CAST_AVAILABILITY.name, str(partition))
        self._positions, self._read_us, self._settling = {}, {}, set()
