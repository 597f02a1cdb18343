"""The worker's own partition of jobs.grants, read from its end: what it is granted, and what it shall stop.

A record that is lost or late costs a beat at most, whose answer names the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.consumers.worker.messages import Attempt
from headwater.observe import logs
from headwater.rules.errors import BadRecord, HeadwaterError
from headwater.schemas.codec import decode
from headwater.schemas.job_records import GrantKind, JobGrant
from headwater.schemas.topics import JOBS_GRANTS

log = logs.logger()

_WAIT_SECONDS = 0.2
_MOST = 500


@dataclass(frozen=True, slots=True)
class GrantsHeard:
    granted: tuple[Attempt, ...]
    cancel: tuple[Attempt, ...] = ()


class Grants:
    """Reads while its block runs. ``tell`` is called in its thread."""

    def __init__(
        self, kafka: Kafka, partition: int, worker: str, incarnation: int, tell: Callable[[GrantsHeard], None]
    ) -> None:
        self._kafka, self._partition = kafka, partition
        self._worker, self._incarnation = worker, incarnation
        self._tell = tell
        self._ending = False
        self.trouble = ""
        self._thread = Thread(target=self._run, name="grants", daemon=True)

    def __enter__(self) -> Grants:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True

    def _run(self) -> None:
        consumer = self._kafka.consumer("worker", fetch_wait_max_ms=_WAIT_SECONDS * 1_000)
        try:
            self._assign(consumer)
            while not self._ending:
                self._read(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """At the end as it is now: what was granted before, the first beat's answer names."""
        place = (self._kafka.physical(JOBS_GRANTS), self._partition)
        while not self._ending:
            try:
                end = offsets.ends(self._kafka, [place])[place]
            except HeadwaterError as error:
                self.trouble = str(error)
                consumer.poll(_WAIT_SECONDS)
            else:
                consumer.assign([TopicPartition(*place, end)])
                return

    def _read(self, consumer: Consumer) -> None:
        """``consume`` waits for as many as it may bring, so that the first is polled."""
        try:
            first = consumer.poll(_WAIT_SECONDS)
            messages = [] if first is None else [first, *consumer.consume(_MOST, 0.0)]
        except KafkaException as failed:
            self.trouble = str(self._kafka.mapped(failed, asked="Grants were being read."))
            return
        granted: list[Attempt] = []
        cancel: list[Attempt] = []
        for message in messages:
            if (error := message.error()) is not None:
                self.trouble = str(self._kafka.mapped(error, asked="Grants were being read."))
                continue
            self.trouble = ""
            grant = self._mine(message.value() or b"")
            if grant is not None:
                (cancel if grant.kind is GrantKind.cancel else granted).append((grant.job, grant.epoch))
        if granted or cancel:
            self._tell(GrantsHeard(tuple(granted), tuple(cancel)))

    def _mine(self, value: bytes) -> JobGrant | None:
        try:
            grant = decode(value)
        except BadRecord as error:
            log.warning("grant.unreadable", partition=self._partition, error=str(error))
            return None
        if not isinstance(grant, JobGrant) or (grant.worker, grant.incarnation) != (self._worker, self._incarnation):
            return None
        return grant
