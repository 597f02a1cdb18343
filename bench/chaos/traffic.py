"""What members asked of S3, read off the wire: each request, when it began, when and how it was answered."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

_HEAD = re.compile(rb"(?:GET|PUT|POST|HEAD|DELETE) \S+ HTTP/1\.1\r\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_CONTINUE = 100


@dataclass(slots=True)
class Request:
    """``status`` None: no answer was seen. Times are seconds since 1970, of the proxy's clock."""

    method: str
    target: str
    began: float
    ended: float = float("inf")
    status: int | None = None

    @property
    def key(self) -> str:
        """The object's key, without its bucket."""
        return unquote(urlsplit(self.target).path).lstrip("/").partition("/")[2]

    @property
    def part(self) -> int | None:
        """The part that a PUT into a multipart upload sends."""
        number = self._query.get("partNumber")
        return int(number[0]) if number else None

    @property
    def upload_id(self) -> str | None:
        found = self._query.get("uploadId")
        return found[0] if found else None

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def succeeded(self) -> bool:
        return self.status is not None and self.status < 300


class Traffic:
    """Every request of every connection, in the order in which they began."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.requests: list[Request] = []
        self._clock = clock

    def observer(self) -> HttpObserver:
        return HttpObserver(self.requests, self._clock)


class HttpObserver:
    """Follows HTTP/1.1 without pipelining: requests and answers take turns, so no body needs to be measured.

    A client that is refused early may send the rest of a body after the answer: that does not look like a head.
    """

    def __init__(self, requests: list[Request], clock: Callable[[], float]) -> None:
        self._requests = requests
        self._clock = clock
        self._current: Request | None = None
        self._sent = b""
        self._answer = b""

    def sent(self, data: bytes) -> None:
        if self._current is not None and self._current.status is None:
            return
        self._sent += data
        if b"\r\n" not in self._sent and len(self._sent) < 8192:
            return
        line, self._sent = self._sent.partition(b"\r\n")[0] + b"\r\n", b""
        if _HEAD.fullmatch(line):
            method, target, _ = line.decode("latin-1").split(" ")
            self._current = Request(method, target, self._clock())
            self._answer = b""
            self._requests.append(self._current)

    def answered(self, data: bytes) -> None:
        if self._current is None or self._current.status is not None:
            return
        self._answer += data
        for found in _STATUS.finditer(self._answer):
            if int(found[1]) != _CONTINUE:
                self._current.status, self._current.ended = int(found[1]), self._clock()
                return
