"""Reads a topic for people: from a place, decoded where it decodes, shown with the reason where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from confluent_kafka import Message

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place
from headwater.connectors.kafka.reading import messages
from headwater.rules.errors import BadRecord, BadSettings
from headwater.rules.identity import HASH_BYTES, display
from headwater.schemas import codec
from headwater.schemas.records import Record

Headers = list[tuple[str, bytes | None]]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin in each partition: at the ``beginning`` or ``end``, at an ``offset``, or at a ``time`` (ms)."""

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as it lies in the topic. ``record`` is None where it does not decode; ``problem`` says why."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    record: Record | None
    problem: str


def start_at(text: str, now: datetime, option: str = "--from") -> Start:
    """``beginning``, ``end``, an offset, a time (ISO 8601, local unless it says) or a time ago (``-30s -5m -2h -1d``).

    Raises BadSettings for anything else.
    """
    if text in ("beginning", "end"):
        return Start(text)
    if text.isdigit():
        return Start("offset", int(text))
    if ago := re.fullmatch(r"-(\d+)([smhd])", text):
        return _at(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
    try:
        return _at(datetime.fromisoformat(text))
    except ValueError:
        raise BadSettings(
            f"{text!r} is no place in a topic.",
            asked=f"A place was given with {option}.",
            advice="Use beginning, end, an offset, a time such as 2026-11-30T08:00, or a time ago such as -5m.",
        ) from None


def _at(moment: datetime) -> Start:
    return Start("time", int(moment.astimezone(UTC).timestamp() * 1000))


def key_text(topic: str, key: bytes | None) -> str:
    """A key for people: ``source/path`` of a file, hex of a hash, else its text. ``topic`` is the catalogue's."""
    if key is None:
        return "(no key)"
    if topic.startswith("fs.changes."):
        source, _, path = key.partition(b"\x00")
        return f"{display(source)}/{display(path)}"
    return key.hex() if len(key) == HASH_BYTES else display(key)


def browse(
    kafka: Kafka,
    topic: str,
    start: Start,
    *,
    follow: bool = False,
    wanted: Callable[[Seen], bool] | None = None,
    limit: int | None = None,
) -> Iterator[Seen]:
    """The committed records of a topic (the catalogue's name), each partition in order.

    Ends after ``limit`` records, and unless ``follow`` where the topic ended when this was called. Commits nothing.
    """
    starts = resolve(kafka, offsets.partitions(kafka, topic), start)
    for message in messages(kafka, starts, follow=follow):
        seen = as_seen(topic, message)
        if wanted is not None and not wanted(seen):
            continue
        yield seen
        limit = None if limit is None else limit - 1
        if limit == 0:
            return


def record_at(kafka: Kafka, topic: str, partition: int, offset: int) -> Seen | None:
    """The first committed record at or after an offset; None where none follows yet."""
    for message in messages(kafka, {(kafka.physical(topic), partition): offset}):
        return as_seen(topic, message)
    return None


def resolve(kafka: Kafka, places: list[Place], start: Start) -> dict[Place, int]:
    """The offset in each partition at which the start lies."""
    if start.kind == "end":
        return offsets.ends(kafka, places)
    if start.kind == "time":
        return offsets.at_time(kafka, places, start.value)
    first = offsets.beginnings(kafka, places)
    return {place: max(start.value, at) for place, at in first.items()}


def as_seen(topic: str, message: Message) -> Seen:
    record, problem = None, ""
    value = message.value()
    try:
        record = codec.decode(value)
    except BadRecord as error:
        problem = "no value (a tombstone)" if value is None else error.happened
    return Seen(
        topic=topic,
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=value,
        headers=tuple(cast(Headers, message.headers() or [])),
        record=record,
        problem=problem,
    )
