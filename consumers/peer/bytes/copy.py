"""The copy of a cast's file in S3: one more source, read by ranges over a URL that needs no credentials."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from headwater.consumers.peer.bytes.wire import Shutdown
from headwater.rules.errors import BadRecord, NotFound, Refused, Unavailable


class Body:
    """The bytes of one range, read as from a socket."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def recv_into(self, buffer: memoryview, /) -> int:
        """Raises OSError where the connection breaks or is silent for too long."""
        return self._response.readinto(buffer)


@contextmanager
def opened(url: str, start: int, length: int, stall_seconds: float, uses: Callable[[Shutdown], None]) -> Iterator[Body]:
    """Asks for ``length`` bytes from ``start`` on. ``uses`` is given what ends a wait from another thread.

    Raises NotFound where there is no copy (any more), Refused where the URL does not hold, BadRecord for another range
    than the one asked for, Unavailable for all else that may pass.
    """
    parts = urlsplit(url)
    made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = made(parts.netloc, timeout=stall_seconds)
    try:
        connection.connect()
        uses(lambda: _shut(connection))
        end = start + length - 1
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Range": f"bytes={start}-{end}"})
        response = connection.getresponse()
        _check(response, start, end)
        yield Body(response)
    except http.client.HTTPException as error:
        raise Unavailable(f"the copy in S3 does not answer: {error!r}.") from error
    finally:
        connection.close()


def _check(response: http.client.HTTPResponse, start: int, end: int) -> None:
    if response.status in (404, 410):
        raise NotFound("there is no copy in S3 any more.")
    if response.status in (400, 401, 403):
        raise Refused(f"S3 does not give the copy out ({response.status}): its URL expired, most likely.")
    if response.status not in (200, 206):
        raise Unavailable(f"S3 answers {response.status}.")
    said = response.headers.get("Content-Range", "")
    if response.status == 200 or not said.startswith(f"bytes {start}-{end}/"):
        raise BadRecord(f"S3 was asked for bytes {start} to {end} and sends {said or 'the whole file'}.")


def _shut(connection: http.client.HTTPConnection) -> None:
    """By the plain socket's own way: a TLS socket's would take from the reading thread what it works with."""
    if connection.sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
