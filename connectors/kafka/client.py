"""One client of Kafka: it makes consumers, producers and the admin client with the settings that were proved.

Every client that it makes reports here when brokers go away or refuse the credentials, so that a later time-out can
be told apart from a refusal.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.errors import CREDENTIALS, as_headwater_error
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError
from headwater.schemas.topics import Topic

TRANSACTION_SECONDS = 10
"""Readers wait for an open transaction of a dead producer for at most this long."""

_TROUBLE_SECONDS = 30.0
"""How long the last trouble explains a time-out, and is not logged again."""

_COMMON: dict[str, Any] = {
    # Errors come through error_cb into our logs; librdkafka's own lines on stderr say the same again.
    "log_level": 0,
    # A broker that restarts is found again within two seconds, not ten.
    "reconnect.backoff.max.ms": 2_000,
}
_CONSUMER: dict[str, Any] = {
    # With the new protocol a hung member kept its partition for 50 s, with classic for 6 s (client 2.16.1).
    "group.protocol": "classic",
    # Eager: see docs/decisions/010.
    "partition.assignment.strategy": "range",
    # The least that brokers accept by default: a dead member's partitions move on after this.
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_000,
    # A member whose consumer thread hangs gives up its partitions after this.
    "max.poll.interval.ms": 60_000,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # Prefetch is bounded by bytes, and a full prefetch queue is looked at again soon.
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 20,
}
_PRODUCER: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    # The log shares a site's uplink with the payload.
    "compression.type": "lz4",
    # The partition of a key is the same as for Java clients.
    "partitioner": "murmur2_random",
}


class Kafka:
    """Safe for threads. The consumers and producers that it makes belong to the caller, who closes them."""

    def __init__(self, config: KafkaConfig) -> None:
        self.config = config
        self._log = logs.logger()
        self._lock = Lock()
        self._admin: AdminClient | None = None
        self._trouble: tuple[float, KafkaError] | None = None
        self._silent_since: float | None = None

    def physical(self, topic: Topic | str) -> str:
        """The topic's name on the cluster."""
        return self.config.prefix + (topic if isinstance(topic, str) else topic.name)

    def group(self, name: str) -> str:
        """The group's id on the cluster."""
        return self.config.prefix + name

    def consumer(self, group: str, **settings: Any) -> Consumer:
        """A consumer of ``group`` that commits nothing by itself. ``settings``: dots of their names as underscores."""
        own = _CONSUMER | {"group.id": self.group(group)} | _dotted(settings)
        return Consumer(self._settings(own))

    def producer(self, **settings: Any) -> Producer:
        """An idempotent producer: each record once and in order per partition, within this producer's life."""
        return Producer(self._settings(_PRODUCER | _dotted(settings)))

    def transactional_producer(self, transactional_id: str) -> Producer:
        """A producer whose ``init_transactions`` fences and aborts what an earlier holder of the id left open."""
        own = {
            "transactional.id": self.config.prefix + transactional_id,
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1_000,
        }
        return Producer(self._settings(_PRODUCER | own))

    def admin(self) -> AdminClient:
        """The one admin client, kept: an inline one is collected before its futures resolve."""
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient(self._settings({}))
            return self._admin

    def silent_since(self) -> float | None:
        """Since when (``time.monotonic``) no broker answers any of these clients, as far as they noticed."""
        return self._silent_since

    def answered(self) -> None:
        """A caller saw the brokers answer: forget the silence."""
        self._silent_since = None

    def mapped(self, error: KafkaError | KafkaException, *, asked: str = "") -> HeadwaterError:
        """The error as one of ours, with the brokers' address in it."""
        if isinstance(error, KafkaException):
            error = error.args[0]
        assert isinstance(error, KafkaError)
        if self._admin is not None:
            self._admin.poll(0)  # the admin client tells what it heard only when asked
        cause = self._trouble[1] if self._trouble and time.monotonic() - self._trouble[0] < _TROUBLE_SECONDS else None
        return as_headwater_error(error, self.config.bootstrap_servers, asked=asked, cause=cause)

    def _settings(self, own: dict[str, Any]) -> dict[str, Any]:
        where = {"bootstrap.servers": self.config.bootstrap_servers, "error_cb": self._heard}
        return _COMMON | own | dict(self.config.client) | where

    def _heard(self, error: KafkaError) -> None:
        """librdkafka reports trouble between requests; called from whatever thread polls."""
        now = time.monotonic()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._silent_since = self._silent_since or now
            return  # why was said before
        if self._trouble is not None:
            heard, before = self._trouble
            if now - heard < _TROUBLE_SECONDS and before.code() in CREDENTIALS | {error.code()}:
                return
        self._trouble = (now, error)
        self._log.warning("kafka.trouble", servers=self.config.bootstrap_servers, error=error.str())


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}
