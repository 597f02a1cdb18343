"""Records to bytes and back: Avro in Confluent's wire format (a zero byte, the schema id in 4 bytes, the body).

Ids are pinned: ``schemas/history/NNNN-<name>.avsc`` is schema NNNN for ever, and the newest of a name is what we
write. Readers resolve any published id to the newest shape of its record.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints

import fastavro
from fastavro.types import AvroMessage

from headwater.rules.errors import BadRecord, NewerRecord
from headwater.schemas import cast_records, job_records, records
from headwater.schemas.records import Record

RECORDS: tuple[type[Record], ...] = (*records.ALL, *cast_records.ALL, *job_records.ALL)

_FRAME = struct.Struct(">bI")
_MAGIC = 0

_NEWER_IDS = 1_000
"""Ids are given in order: one that is so little above ours is a newer release's, any other is no id of ours."""


@dataclass(frozen=True, slots=True)
class PublishedSchema:
    """A schema as it was published: its pinned id, the record's schema name, its text and its parsed form."""

    id: int
    name: str
    text: str
    parsed: Any


@cache
def history() -> dict[int, PublishedSchema]:
    """Every schema ever published, by id."""
    published = {}
    for entry in (files("headwater.schemas") / "history").iterdir():
        number, _, name = entry.name.removesuffix(".avsc").partition("-")
        if not (entry.name.endswith(".avsc") and number.isdigit()):
            continue
        text = entry.read_text("utf-8")
        published[int(number)] = PublishedSchema(int(number), name, text, fastavro.parse_schema(json.loads(text)))
    return published


@cache
def newest(name: str) -> PublishedSchema:
    """The schema that records of this name are written with."""
    return max((schema for schema in history().values() if schema.name == name), key=lambda schema: schema.id)


@cache
def _record_types() -> dict[str, type[Record]]:
    return {record.schema_name: record for record in RECORDS}


def _to_plain(value: Any) -> AvroMessage:
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if is_dataclass(value):
        names, values_of, nested = _layout(value.__class__)
        plain = dict(zip(names, values_of(value), strict=True))
        for name in nested:
            plain[name] = _to_plain(plain[name])
        return plain
    return value  # type: ignore[no-any-return]  # bytes, str, int and StrEnum are what Avro takes


@cache
def _layout(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[str, ...]]:
    """Of a record class: its fields, a quick way to read them all, and those that hold further records."""
    names = tuple(field.name for field in fields(kind))
    nested = tuple(name for name, hint in get_type_hints(kind).items() if get_origin(hint) is tuple)
    return names, attrgetter(*names), nested


@cache
def _builders(name: str) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The fields of a record whose plain Avro value must become one of our types."""
    hints = get_type_hints(_record_types()[name])
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for field, hint in hints.items():
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            found.append((field, hint))
        elif _nested(hint):
            found.append((field, partial(_build_all, get_args(hint)[0])))
        elif get_origin(hint) is tuple:
            found.append((field, tuple))
    return tuple(found)


def _build_all(item: type[Any], plain: list[dict[str, Any]]) -> tuple[Any, ...]:
    return tuple(item(**fields_of) for fields_of in plain)


def _nested(hint: Any) -> bool:
    return get_origin(hint) is tuple and is_dataclass(get_args(hint)[0])


def encode(record: Record) -> bytes:
    """The record's value for Kafka. Raises BadRecord where a field does not fit its schema."""
    schema = newest(record.schema_name)
    out = io.BytesIO()
    out.write(_FRAME.pack(_MAGIC, schema.id))
    try:
        fastavro.schemaless_writer(out, schema.parsed, _to_plain(record))
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        raise BadRecord(
            f"a {type(record).__name__} does not fit schema {schema.id} ({schema.name}): {error}",
            kept="Nothing was written.",
        ) from error
    return out.getvalue()


def decode(value: bytes | None) -> Record:
    """The record in a Kafka value.

    Raises NewerRecord for a schema that only a newer release has, and BadRecord, with the reason, for all that is not
    one of ours.
    """
    if value is None or len(value) < _FRAME.size:
        raise BadRecord(f"the value has {0 if value is None else len(value)} bytes, too few for a schema id")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic != _MAGIC:
        raise BadRecord(f"the value starts with byte {value[0]:#04x}, not with 0x00 of the Confluent wire format")
    writer = history().get(schema_id)
    if writer is None:
        raise _unknown(schema_id)
    body = io.BytesIO(value)
    body.seek(_FRAME.size)
    try:
        plain = fastavro.schemaless_reader(body, writer.parsed, newest(writer.name).parsed)
    except Exception as error:  # fastavro raises whatever its decoder met: EOFError, ValueError, IndexError, …
        raise BadRecord(f"the value does not decode as schema {schema_id} ({writer.name}): {error!r}") from error
    if body.tell() != len(value):
        raise BadRecord(f"{len(value) - body.tell()} bytes follow the record of schema {schema_id} ({writer.name})")
    return _build(_record_types()[writer.name], plain)


def _unknown(schema_id: int) -> BadRecord:
    if 0 < schema_id - max(history()) <= _NEWER_IDS:
        return NewerRecord(
            f"the value names schema {schema_id}, which a newer release of headwater wrote",
            kept="The record is on the log.",
            advice="Upgrade this process: it goes on where it stopped.",
            schema_id=schema_id,
        )
    return BadRecord(f"the value names schema {schema_id}, which no release of headwater has", schema_id=schema_id)


def _build(record: type[Record], plain: Any) -> Record:
    for name, build in _builders(record.schema_name):
        plain[name] = build(plain[name])
    return record(**plain)
