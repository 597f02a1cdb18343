"""What the caster says on the log: the records of one cast in cast.manifests, in order, each at least once."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError, Unavailable
from headwater.schemas.cast_records import CastManifest, ManifestKind
from headwater.schemas.codec import encode
from headwater.schemas.topics import CAST_MANIFESTS

log = logs.logger()

_IN_FLIGHT = 256
"""Records that the log has not acknowledged: half a megabyte, and 256 GB of a file in chunks of 16 MiB."""
_POLL_SECONDS = 0.1


class ManifestLog:
    """One producer, for one thread: idempotent, so that records arrive once and in order while it lives.

    While no broker answers it waits, as long as it is patient: ``seconds`` in all for each call, None for ever. It says
    so in ``waits``, which any thread may read, and once in the logs. ``stop`` ends a wait. Raises Unavailable where the
    patience is over, and what a refusal is mapped to.
    """

    def __init__(self, kafka: Kafka, *, seconds: float | None = None, stop: Event | None = None) -> None:
        self._kafka = kafka
        self._seconds = seconds
        self._stop = stop or Event()
        self._producer = kafka.producer(message_timeout_ms=0)  # never given up by itself: order and number would suffer
        self._in_flight = 0
        self._failed: HeadwaterError | None = None
        self.waits = ""

    def say(self, name: str, epoch: int, kind: ManifestKind, *, reason: str, **fields: Any) -> None:
        """Hand over one record; waits while too many are not acknowledged."""
        self._until(lambda: self._in_flight < _IN_FLIGHT)
        record = CastManifest(name=name, epoch=epoch, kind=kind, reason=reason, **fields)
        self._in_flight += 1
        self._producer.produce(
            self._kafka.physical(CAST_MANIFESTS),
            key=record.key(),
            value=encode(record),
            headers=event_headers(time.time_ns() // 1_000),  # type: ignore[arg-type]  # stubs: invariant list
            on_delivery=self._delivered,
        )
        self._producer.poll(0)

    def settle(self) -> None:
        """Wait until the log has acknowledged all that was said."""
        self._until(lambda: not self._in_flight)

    def _until(self, reached: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not reached():
            self._producer.poll(_POLL_SECONDS)
            if self._failed is not None:
                raise self._failed
            self._notice()
            if self._stop.is_set() or (self._seconds is not None and time.monotonic() - begun > self._seconds):
                self._producer.purge()
                raise Unavailable(
                    self.waits or f"Kafka at {self._kafka.config.bootstrap_servers} has not acknowledged it.",
                    asked="A cast's manifest was being written.",
                    kept="The catalog holds what was decided.",
                    advice="The next `headwater cast publish` of this name or on this host says it on the log.",
                )
        self.waits = ""

    def _notice(self) -> None:
        if not self.waits and self._kafka.silent_since() is not None:
            self.waits = f"no broker at {self._kafka.config.bootstrap_servers} answers"
            log.warning("manifest.waits", reason=self.waits, kept="Hashing goes on when it is back; nothing is lost.")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._in_flight -= 1
        if error is not None:
            self._failed = self._kafka.mapped(KafkaException(error), asked="A cast's manifest was being written.")
        else:
            self._kafka.answered()
            self.waits = ""
