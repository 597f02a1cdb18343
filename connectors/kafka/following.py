"""Follows partitions from given offsets on: what was there, then what comes; commits nothing, needs no group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place

_AT_A_TIME = 1_000
_WAIT_SECONDS = 0.5


class Following:
    """A consumer of its own, with ``settings`` as ``Kafka.consumer`` takes them. Not safe for threads. Methods raise
    what Kafka's errors are mapped to."""

    def __init__(self, kafka: Kafka, starts: Mapping[Place, int], **settings: Any) -> None:
        self._kafka = kafka
        self._positions = dict(starts)
        # At the end of a partition the broker answers after this wait, not after its usual half second.
        self._consumer: Consumer = kafka.consumer(
            "follow", **{"enable_partition_eof": True, "fetch_wait_max_ms": 100} | settings
        )
        self._consumer.assign([TopicPartition(*place, at) for place, at in starts.items()])

    def catch_up(self) -> Iterator[Message]:
        """The messages up to where the partitions ended when this was called."""
        ends = offsets.ends(self._kafka, self._positions)
        while not self.reached(ends):
            yield from self.read(_WAIT_SECONDS)

    def reached(self, ends: Mapping[Place, int]) -> bool:
        """Was everything before these offsets read?"""
        return all(self._positions[place] >= end for place, end in ends.items())

    def read(self, within_seconds: float) -> list[Message]:
        """What has come, each partition in order; waits as long for a first message. Empty where none came.

        An error that came with messages is not raised: they would be lost with it, and it comes again if it lasts.
        """
        try:
            first = self._consumer.poll(within_seconds)  # ``consume`` would wait all this time for a whole batch
            came = [] if first is None else [first, *self._consumer.consume(_AT_A_TIME, 0)]
        except KafkaException as failed:
            raise self._kafka.mapped(failed, asked="Topics were being followed.") from failed
        messages: list[Message] = []
        failure: KafkaError | None = None
        for message in came:
            error, place, offset = message.error(), (message.topic() or "", message.partition() or 0), message.offset()
            if error is None:
                messages.append(message)
                self._positions[place] = (offset or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # past the marks of transactions
                self._positions[place] = max(self._positions[place], offset or 0)
            else:
                failure = error
        if failure is not None and not messages:
            raise self._kafka.mapped(failure, asked="Topics were being followed.")
        return messages

    def broker_answers(self, within_seconds: float) -> bool:
        """A consumer that hears nothing looks like one that has nothing to hear: ask, where there is a suspicion."""
        try:
            self._consumer.list_topics(next(iter(self._positions))[0], timeout=within_seconds)
        except KafkaException:
            return False
        return True

    def close(self) -> None:
        self._consumer.close()
