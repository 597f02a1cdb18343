"""Server-sent events as a client reads them (HTML Living Standard, section 9.2)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """``kind`` is snapshot (``data`` is the whole video), status or progress. ``id`` resumes after it."""

    id: str
    kind: str
    data: dict[str, Any]

    @property
    def final(self) -> bool:
        """Nothing comes after it."""
        return self.data["status"] in ("completed", "failed", "cancelled", "expired")


def events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in a stream's lines. One that the stream's end cuts off is none."""
    fields: dict[str, str] = {}
    for line in lines:
        if line == "":
            if "data" in fields:
                yield Event(fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value
