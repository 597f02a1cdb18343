"""The headers that every record of ours carries beside its key and value.

The time of the event (microseconds since 1970, UTC), the producer (version, host, incarnation), and the W3C trace
context (https://www.w3.org/TR/trace-context/) where the record that caused it had one. A record that comes back from
the dead also says how often it did.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version

EVENT_TIME = "headwater-event-time"
PRODUCER = "headwater-producer"
REDRIVES = "headwater-redrives"
TRACEPARENT = "traceparent"

HeaderList = list[tuple[str, bytes]]


@cache
def producer_identity() -> bytes:
    """``<version> <host> <incarnation>``: which start of which process on which host wrote a record."""
    return f"{version('headwater')} {socket.gethostname()} {uuid.uuid4().hex}".encode()


def event_headers(event_time_us: int, traceparent: bytes | None = None) -> HeaderList:
    """Headers of a new record. ``traceparent`` is the one of the record that caused it."""
    headers = [(EVENT_TIME, str(event_time_us).encode()), (PRODUCER, producer_identity())]
    if traceparent is not None:
        headers.append((TRACEPARENT, traceparent))
    return headers


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """The last header of that name, which is the one that counts."""
    found = None
    for candidate, value in headers:
        if candidate == name:
            found = value
    return found


def redrives(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """How often the record came back from the dead; 0 where the header is missing or is not a number."""
    value = header(headers, REDRIVES) or b""
    return int(value) if value.isdigit() else 0
