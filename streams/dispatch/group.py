"""The schedulers' consumer group: its members share the pools, by the partition of their names.

Both topics have as many partitions, and the range assignor gives each member the same of both. Offsets are committed so
that `headwater lag` can tell how far it is; reading begins at the end: what a pool has waiting is in the catalog, which
is read after the place in the log was taken, so that nothing falls between.
"""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place
from headwater.observe import logs, metrics
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED

GROUP = "dispatch"

_AT_A_TIME = 1_000
_PROBE_SECONDS = 0.2
"""Grants wait meanwhile."""

log = logs.logger()


class PoolGroup:
    """One member. ``assignment`` is another number whenever partitions came or went. Not safe for threads."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._positions: dict[Place, int] = {}
        self._read_at: dict[Place, float] = {}
        self.assignment = 0
        self._consumer: Consumer = kafka.consumer(GROUP, fetch_wait_max_ms=200)
        self._names = {kafka.physical(topic): topic.name for topic in (JOBS_REQUESTED, JOBS_EVENTS)}
        self._consumer.subscribe(
            list(self._names), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    @property
    def held(self) -> frozenset[int]:
        """The partitions, of either topic."""
        return frozenset(partition for _, partition in self._positions)

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((self._names[topic], partition) for topic, partition in self._positions))

    def read(self, within_seconds: float) -> list[Message]:
        """What has come, as soon as anything has; serves rebalances. Raises what Kafka's errors are mapped to."""
        # Asked for many, consume() waits until they are there or the time is over; so poll() waits for the first.
        first = self._consumer.poll(within_seconds)
        if first is None:
            return []
        messages = []
        for message in (first, *self._consumer.consume(_AT_A_TIME, 0)):
            error, place = message.error(), (message.topic() or "", message.partition() or 0)
            if error is not None:
                raise self._kafka.mapped(error, asked="Requests and events of jobs were to be read.")
            if place in self._positions:
                self._positions[place] = (message.offset() or 0) + 1
                self._read_at[place] = message.timestamp()[1] / 1_000
                messages.append(message)
        return messages

    def broker_answers(self) -> bool:
        try:
            self._consumer.list_topics(next(iter(self._names)), timeout=_PROBE_SECONDS)
        except KafkaException:
            return False
        return True

    def commit(self) -> None:
        """Tell the group how far it is, without waiting for an answer; the next time says more."""
        if self._positions:
            offset_of = [TopicPartition(*place, at) for place, at in self._positions.items()]
            with suppress(KafkaException):
                self._consumer.commit(offsets=offset_of, asynchronous=True)

    def show_lag(self, now: float) -> None:
        oldest = now
        for place, at in self._positions.items():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            waiting = max(0, end - at)
            until = self._read_at.get(place, now) if waiting else now
            oldest = min(oldest, until)
            labels = (GROUP, self._names[place[0]], str(place[1]))
            metrics.GROUP_LAG_RECORDS.labels(*labels).set(waiting)
            metrics.GROUP_LAG_SECONDS.labels(*labels).set(now - until)
        metrics.GROUP_OLDEST_EVENT_TIME.labels(GROUP).set(oldest)

    def close(self) -> None:
        """Leave the group: its other members take over at once."""
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._positions = offsets.ends(self._kafka, [(at.topic, at.partition) for at in partitions])
        consumer.assign([TopicPartition(*place, offset) for place, offset in self._positions.items()])
        self.assignment += 1
        metrics.GROUP_REBALANCES.labels(GROUP).inc()
        log.info("dispatch.assigned", partitions=len(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit()
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        """Eager: all of them go."""
        for topic, partition in self._positions:
            for gauge in (metrics.GROUP_LAG_RECORDS, metrics.GROUP_LAG_SECONDS):
                with suppress(KeyError):  # never shown
                    gauge.remove(GROUP, self._names[topic], str(partition))
        self._positions, self._read_at = {}, {}
        self.assignment += 1
