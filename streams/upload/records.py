"""What a lane checks of a record before it believes it."""

from __future__ import annotations

from typing import TypeVar

from headwater.rules.errors import BadRecord
from headwater.rules.identity import display
from headwater.schemas.records import Record
from headwater.streams.runtime.processor import Input

Expected = TypeVar("Expected", bound=Record)


def of_type(one: Input, expected: type[Expected]) -> Expected:
    """The record, which must be of the type that its topic holds. Raises BadRecord."""
    if not isinstance(one.record, expected):
        raise BadRecord(
            f"it is a {one.record.schema_name}, not a {expected.schema_name}.",
            asked=f"Apply record {one.topic}/{one.partition}/{one.offset}.",
            kept="Nothing was written for it.",
            advice="Look at who writes to this topic (headwater dead show).",
        )
    return one.record


def check_path(path: bytes) -> None:
    """Raises BadRecord for a path that is not one below a root: absolute, dotted, with empty segments or NUL."""
    if b"\x00" in path or any(segment in (b"", b".", b"..") for segment in path.split(b"/")):
        raise BadRecord(
            f"{display(path)!r} is not a path below a root.",
            asked="Apply a record of a source.",
            kept="Nothing was written for it.",
            advice="No agent writes such a path: look at who produced the record (headwater dead show).",
        )
