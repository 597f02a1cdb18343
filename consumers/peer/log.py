"""A peer's Kafka: what it reads without a group, and what it says. The data never waits for it.

Two readers, because a thousand peers share the brokers (docs/broadcast.md has the sums): manifests come at once, all
else (members, the own rack's availability, the summaries of racks) is gathered for half a second. While the brokers are
away readers try again and what is said waits; availability, which is soon old, waits once for each cast at most.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.connectors.kafka.headers import event_headers
from headwater.connectors.kafka.offsets import Place
from headwater.connectors.kafka.partitioning import partition_of
from headwater.observe import logs
from headwater.rules.errors import BadRecord, HeadwaterError
from headwater.schemas.cast_records import (
    CastAvailability,
    CastEvent,
    CastManifest,
    CastMember,
    CastProgress,
    CastRack,
)
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Record
from headwater.schemas.topics import (
    CAST_AVAILABILITY,
    CAST_EVENTS,
    CAST_MANIFESTS,
    CAST_MEMBERS,
    CAST_PROGRESS,
    CAST_RACKS,
    Topic,
)

log = logs.logger()

_TOPICS: dict[type[Record], Topic] = {
    CastMember: CAST_MEMBERS,
    CastAvailability: CAST_AVAILABILITY,
    CastProgress: CAST_PROGRESS,
    CastEvent: CAST_EVENTS,
}
_PROMPT = {"fetch_min_bytes": 1, "fetch_wait_max_ms": 500}
_GATHERED = {"fetch_min_bytes": 1_000_000, "fetch_wait_max_ms": 500}
_AVAILABLE_MS, _RACKS_MS = 15_000, 5_000
"""How far back a peer that starts reads: of each host's availability every tenth is whole, a rack's summary each is."""
_PAUSE_SECONDS = 1.0
_POLL_SECONDS = 0.5
_FLUSH_SECONDS = 5.0
_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Read:
    """Records in their order, each with its partition and offset. ``caught_up``: none was older than these any more."""

    entries: tuple[tuple[Record, int, int], ...]
    caught_up: str | None = None


class Log:
    """``on_read`` is called in this object's threads: it must not block."""

    def __init__(self, kafka: Kafka, rack: str, on_read: Callable[[Read], None]) -> None:
        self._kafka = kafka
        self._on_read = on_read
        self.partition = partition_of(rack.encode(), CAST_MEMBERS.partitions)
        """Of the rack's members and their availability."""
        # Whatever the outage lasts, what is said arrives after it.
        self._producer = kafka.producer(message_timeout_ms=0)
        self._waiting: deque[tuple[Record, int, Callable[[int], None] | None]] = deque(maxlen=_WAITING)
        self._underway: set[int] = set()
        self._ending = threading.Event()
        self._trouble = ""
        self._threads = [
            threading.Thread(target=self._follow, name=name, args=(name, starts, settings), daemon=True)
            for name, starts, settings in (
                ("manifests", self._manifests, _PROMPT),
                ("members", self._members, _GATHERED),
            )
        ]

    @property
    def trouble(self) -> str:
        """Why the log is not read at the moment; empty where it is."""
        silent = self._kafka.silent_since()
        return self._trouble or (
            "" if silent is None else f"Kafka does not answer for {time.monotonic() - silent:.0f} s"
        )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Sends what waits, for a few seconds at most."""
        self._ending.set()
        self.pump()
        self._producer.flush(_FLUSH_SECONDS)
        for thread in self._threads:
            thread.join()

    # Saying

    def say(self, record: Record, rack: str | None = None, said: Callable[[int], None] | None = None) -> None:
        """Says a record, to the partition of ``rack`` where its topic goes by racks. ``said`` is told its offset."""
        partition = -1 if rack is None else partition_of(rack.encode(), CAST_MEMBERS.partitions)
        self._waiting.append((record, partition, said))
        self.pump()

    def say_availability(self, record: CastAvailability) -> bool:
        """False, and nothing was said, while the one before has not arrived."""
        if record.epoch in self._underway:
            return False
        self._underway.add(record.epoch)
        self.say(record, None, lambda _: self._underway.discard(record.epoch))
        return True

    def pump(self) -> None:
        """Hands over what waits. Call it now and then: ``said`` is called in here."""
        self._producer.poll(0)
        while self._waiting:
            record, partition, said = self._waiting[0]
            if not self._produce(record, partition, said):
                return
            self._waiting.popleft()

    def _produce(self, record: Record, partition: int, said: Callable[[int], None] | None) -> bool:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                log.error("peer.unsaid", record=type(record).__name__, error=error.str())
            elif said is not None:
                said(message.offset() or 0)

        available = isinstance(record, CastAvailability)
        try:
            self._producer.produce(
                self._kafka.physical(_TOPICS[type(record)]),
                key=record.key(),
                value=encode(record),
                partition=self.partition if available else partition,
                headers=None if available else event_headers(time.time_ns() // 1_000),  # type: ignore[arg-type]
                on_delivery=delivered,
            )
        except (BufferError, KafkaException) as error:
            log.warning("peer.waits", error=str(error))
            return False
        return True

    # Reading

    def _manifests(self) -> dict[Place, int]:
        return offsets.beginnings(self._kafka, offsets.partitions(self._kafka, CAST_MANIFESTS.name))

    def _members(self) -> dict[Place, int]:
        kafka, now_ms = self._kafka, int(time.time() * 1000)
        available = [(kafka.physical(CAST_AVAILABILITY), self.partition)]
        return {
            **offsets.beginnings(kafka, offsets.partitions(kafka, CAST_MEMBERS.name)),
            **offsets.at_time(kafka, available, now_ms - _AVAILABLE_MS),
            **offsets.at_time(kafka, offsets.partitions(kafka, CAST_RACKS.name), now_ms - _RACKS_MS),
        }

    def _follow(self, name: str, starts: Callable[[], dict[Place, int]], settings: dict[str, int]) -> None:
        """Until the end; a reader that cannot go on begins where it was."""
        at: dict[Place, int] = {}
        while not self._ending.is_set():
            try:
                at = at or starts()
                following = Following(self._kafka, at, **settings)
                try:
                    self._read(name, following, at)
                finally:
                    following.close()
            except HeadwaterError as error:
                if self._trouble != error.happened:
                    log.warning("peer.log", reads=name, error=error.happened, kept="the data goes on without it")
                self._trouble = error.happened
                self._ending.wait(_PAUSE_SECONDS)

    def _read(self, name: str, following: Following, at: dict[Place, int]) -> None:
        ends: dict[Place, int] | None = offsets.ends(self._kafka, at)
        while not self._ending.is_set():
            messages = following.read(_POLL_SECONDS)
            self._trouble = ""
            for message in messages:
                at[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1
            if ends is not None and following.reached(ends):
                ends = None
                self._on_read(Read(tuple(_decoded(messages)), name))
            elif messages:
                self._on_read(Read(tuple(_decoded(messages))))


def _decoded(messages: Iterable[Message]) -> Iterable[tuple[Record, int, int]]:
    for message in messages:
        try:
            record = decode(message.value())
        except BadRecord as error:
            log.warning("peer.record", topic=message.topic(), offset=message.offset(), error=error.happened)
            continue
        if isinstance(record, CastManifest | CastMember | CastAvailability | CastRack):
            yield record, message.partition() or 0, message.offset() or 0
