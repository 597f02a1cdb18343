"""A process's word to the fleet every few seconds: best effort, beside the work, never in its way.

A thread and a producer of its own. While the log is away its words are dropped, which is said once: counts only grow,
so that the next word that arrives makes up for them.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.observe import logs
from headwater.observe.http import Health
from headwater.observe.telemetry import STOPPED, Speaker
from headwater.schemas.codec import encode
from headwater.schemas.topics import FLEET_TELEMETRY

log = logs.logger()

EVERY_SECONDS = 5.0
"""Often enough that a process's death is known within half a minute, seldom enough for a thousand processes."""

_FAREWELL_SECONDS = 1.0
"""How long the end of a process waits for the log to take its goodbye."""

_SETTINGS = {
    # What could not be sent until the next word is worth nothing.
    "message_timeout_ms": int(EVERY_SECONDS * 1_000),
    "queue_buffering_max_messages": 10,
}


class Telemetry:
    """Speaks while its block runs. A block that ends well says goodbye; who dies of an error becomes silent, and is
    missed. ``health`` is called in a thread of this object's own."""

    def __init__(self, kafka: Kafka, speaker: Speaker, health: Callable[[], Health]) -> None:
        self._kafka = kafka
        self._speaker = speaker
        self._health = health
        self._ending = Event()
        self._thread = Thread(target=self._run, name="telemetry", daemon=True)
        self._producer: Producer | None = None
        self._dropping = False

    def __enter__(self) -> Telemetry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(_FAREWELL_SECONDS)
        if kind is None and not self._dropping and not self._thread.is_alive():
            self._say(Health(True, STOPPED))
            self._flush(_FAREWELL_SECONDS)

    def _run(self) -> None:
        while True:
            self._say(self._health())
            if self._ending.wait(EVERY_SECONDS):
                return

    def _say(self, health: Health) -> None:
        """Whatever goes wrong here must not reach the work."""
        try:
            producer = self._producer = self._producer or self._kafka.producer(**_SETTINGS)
            producer.poll(0)  # before all else: what was given up makes room only once its callback was served
            word = self._speaker.say(health)
            producer.produce(
                self._kafka.physical(FLEET_TELEMETRY),
                key=word.key(),
                value=encode(word),
                headers=event_headers(word.sent_us),  # type: ignore[arg-type]  # stubs: invariant list
                on_delivery=self._delivered,
            )
        except Exception as error:
            self._drop(error)

    def _flush(self, seconds: float) -> None:
        try:
            if self._producer is not None:
                self._producer.flush(seconds)
        except KafkaException as error:
            self._drop(error)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            if error.fatal():
                self._producer = None
            self._drop(error)
        elif self._dropping:
            self._dropping = False
            log.info("telemetry.resumed", group=self._speaker.group)

    def _drop(self, error: Any) -> None:
        if not self._dropping:
            self._dropping = True
            kept = "The work goes on; only the views do not see it."
            log.warning("telemetry.dropped", group=self._speaker.group, error=str(error), kept=kept)
