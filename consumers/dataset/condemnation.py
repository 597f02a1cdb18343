"""What is to be done about objects that reading a version found broken: its next version is to be whole again.

1. condemn   one catalog transaction: verified objects are condemned, so that nobody counts on their bytes any more.
             A crash leaves contents that nobody is asked for; proving the version again finds them and asks.
2. ask       each source is asked to send the paths again whose newest state has such a content and no other object.
             A crash leaves some unasked, or asks some again, which an agent takes as one request.

The source reads the path again, its content gets the next generation, and the next version names that one. Versions
that were published keep the old name: they are history, and what they lost they lost.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message

from headwater.connectors.catalog import condemned, counters, files, objects
from headwater.connectors.catalog.files import WaitingPath
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.verification import BrokenObject
from headwater.schemas import codec
from headwater.schemas.records import RequestReason
from headwater.schemas.topics import SYNC_REQUESTS

_FLUSH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Condemned:
    """``asked`` are the paths that sources were asked for; ``lost`` the contents that no path has now: whoever holds a
    copy must bring it back."""

    objects: int
    asked: tuple[WaitingPath, ...]
    lost: int


def condemn(dataset: Dataset, kafka: Kafka, broken: Collection[BrokenObject]) -> Condemned:
    """Both steps. Raises Unavailable; safe to repeat."""
    waiting, lost = _condemn(dataset, broken)
    _ask(kafka, waiting)
    return Condemned(len(broken), tuple(waiting), lost)


def _condemn(dataset: Dataset, broken: Collection[BrokenObject]) -> tuple[list[WaitingPath], int]:
    """Step 1. Returns what step 2 asks for, and how many contents nobody has."""
    contents = {one.hash for one in broken}
    with dataset.catalog.transaction() as transaction:
        tally = condemned.condemn(transaction, {(one.hash, one.generation): one.reason for one in broken})
        missing = contents - objects.current(transaction, contents).keys()
        waiting = files.waiting_paths(transaction, missing)
        counters.add(transaction, tally)
    return waiting, len(missing - {one.hash for one in waiting})


def _ask(kafka: Kafka, waiting: Sequence[WaitingPath]) -> None:
    """Step 2. Returns when Kafka has every request."""
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer, topic = kafka.producer(), kafka.physical(SYNC_REQUESTS)
    for one in waiting:
        request = one.request(RequestReason.condemned)
        headers = event_headers(time.time_ns() // 1_000)
        while True:
            try:
                producer.produce(topic, codec.encode(request), request.key(), headers=headers, on_delivery=note)  # type: ignore[arg-type]
                break
            except BufferError:
                producer.poll(1.0)
    if producer.flush(_FLUSH_SECONDS) or failures:
        failure = failures[0] if failures else KafkaError(KafkaError._MSG_TIMED_OUT)
        raise kafka.mapped(KafkaException(failure), asked="Sources were to be asked for paths again.")
