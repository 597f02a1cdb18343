"""HTTP requests to URLs that tenants gave.

A request opens a connection of its own and follows no redirect; it knows no proxy, no cookies and no credentials.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpcore

import headwater
from headwater.connectors.web.config import WebConfig
from headwater.connectors.web.guard import Guard
from headwater.connectors.web.url import Url, check
from headwater.rules.errors import Refused, Unavailable

_SAID_BYTES = 2_048
"""What is kept of an answer, for people."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes
    """As much of it as people need to see."""


class Web:
    """Safe for threads."""

    def __init__(self, config: WebConfig) -> None:
        self.config = config
        self._networks = config.networks()
        self._tls = ssl.create_default_context()

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer, whatever its status. Raises BadUrl where we do not go, Unavailable where no answer came in time:
        the other side may have the body all the same."""
        until = time.monotonic() + self.config.answer_seconds
        with self._requested("POST", check(url, self.config), headers, body, until) as response:
            said = b""
            for chunk in response.iter_stream():
                said = (said + chunk)[:_SAID_BYTES]
                if len(said) == _SAID_BYTES:
                    break
            return Answer(response.status, _headers(response), said)

    def download(self, url: str, into: Path, *, most_bytes: int) -> int:
        """Write what the URL gives to the new file ``into``; returns its bytes. On an error no file is left.

        Raises BadUrl where we do not go, Refused for an answer that is no 200 or more than ``most_bytes``, Unavailable
        for a 5xx, a 429, or an answer that did not come, or not as a whole.
        """
        until = time.monotonic() + self.config.download_seconds
        parts = check(url, self.config)
        with self._requested("GET", parts, {}, None, until) as response:
            if response.status != 200:
                failure = Unavailable if response.status >= 500 or response.status == 429 else Refused
                raise failure(f"{parts.authority} answered {response.status}", asked="Fetching an input.", url=url)
            return _written(response.iter_stream(), into, most_bytes)

    @contextmanager
    def _requested(
        self, method: str, url: Url, headers: Mapping[str, str], body: bytes | None, until: float
    ) -> Iterator[httpcore.Response]:
        said = {
            "host": url.authority,
            "user-agent": f"headwater/{headwater.__version__}",
            "connection": "close",
            **headers,
        }
        if body is not None:
            said["content-length"] = str(len(body))
        target = httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        guard = Guard(self._networks, self.config.connect_seconds, until)
        connection = httpcore.HTTPConnection(target.origin, ssl_context=self._tls, network_backend=guard)
        try:
            with closing(connection):
                yield connection.handle_request(
                    httpcore.Request(method, target, headers=list(said.items()), content=body)
                )
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            raise Unavailable(f"{url.authority} gave no answer: {_reason(error)}.", url=url.authority) from error


def _written(chunks: Iterator[bytes], into: Path, most_bytes: int) -> int:
    size = 0
    try:
        with into.open("xb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > most_bytes:
                    raise Refused(f"the input has more than {most_bytes} bytes", asked="Fetching an input.")
                file.write(chunk)
    except BaseException:
        into.unlink(missing_ok=True)
        raise
    return size


def _headers(response: httpcore.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().rstrip(".")
