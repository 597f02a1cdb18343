"""The copy in S3 as a source: a real HTTP server that knows ranges, and one that does as it likes."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.consumers.peer.bytes.fetch import COPY, Fetch, Outcome

MIB = 1024 * 1024
EPOCH = 7


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Range"]))
        self.server.behave(self)

    def log_message(self, *_: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behave: Callable[[Any], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behave = behave
        self.asked: list[tuple[str, str]] = []

    def handle_error(self, *_: Any) -> None:
        """A client that leaves, as it does in some of these tests, is none."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/casts/7?X-Amz-Signature=abc%2Fd"


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(behave: Callable[[Any], None]) -> Server:
        made.append(Server(behave))
        threading.Thread(target=made[-1].serve_forever, args=(0.05,)).start()
        return made[-1]

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


def gives(data: bytes) -> Callable[[Any], None]:
    """As S3 answers a range."""

    def behave(handler: Any) -> None:
        first, last = map(int, handler.headers["Range"].removeprefix("bytes=").split("-"))
        piece = data[first : last + 1]
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {first}-{first + len(piece) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(piece)))
        handler.end_headers()
        handler.wfile.write(piece)

    return behave


def says(status: int, body: bytes = b"") -> Callable[[Any], None]:
    def behave(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def breaks_off(handler: Any) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-{MIB - 1}/{MIB}")
    handler.send_header("Content-Length", str(MIB))
    handler.end_headers()
    handler.wfile.write(bytes(1000))
    handler.wfile.flush()
    handler.connection.shutdown(2)
    handler.close_connection = True


def fetch(server: Server, store: Any, chunk: int) -> Fetch:
    return Fetch(EPOCH, chunk, COPY, 0, server.url, store)


def test_chunks_come_by_ranges_with_the_url_as_it_was_signed(fleet: Any, server: Any) -> None:
    content = fleet.content(2 * MIB + 5)
    partial, taker, copy = content.partial(fleet.into()), fleet.taker(), server(gives(content.data))

    for chunk in range(3):
        taker.fetches.submit(fetch(copy, partial, chunk))
        assert taker.fetched.get(timeout=10).outcome is Outcome.verified

    partial.install(content.root)
    assert (fleet.folder / "into/w.bin").read_bytes() == content.data
    path = "/casts/7?X-Amz-Signature=abc%2Fd"
    assert copy.asked == [
        (path, f"bytes=0-{MIB - 1}"),
        (path, f"bytes={MIB}-{2 * MIB - 1}"),
        (path, f"bytes={2 * MIB}-{2 * MIB + 4}"),
    ]


@pytest.mark.parametrize(
    ("behave", "outcome"),
    [
        (says(404), Outcome.not_here),
        (says(403), Outcome.refused),
        (says(503), Outcome.cut_off),
        (says(200, bytes(MIB)), Outcome.corrupt),
        (gives(bytes(MIB)), Outcome.corrupt),
        (gives(bytes(1000)), Outcome.corrupt),
        (breaks_off, Outcome.cut_off),
        (lambda handler: handler.wfile.write(b"\0\0nonsense\r\n\r\n"), Outcome.cut_off),
    ],
    ids=["gone", "expired", "busy", "no ranges", "other bytes", "shorter", "breaks off", "no HTTP"],
)
def test_a_bad_copy_brings_nothing(fleet: Any, server: Any, behave: Callable[[Any], None], outcome: Outcome) -> None:
    content = fleet.content(MIB)
    partial, taker = content.partial(fleet.into()), fleet.taker()

    taker.fetches.submit(fetch(server(behave), partial, 0))

    fetched = taker.fetched.get(timeout=10)
    assert fetched.outcome is outcome, fetched.reason
    assert not partial.had().any()


def test_a_copy_that_falls_silent_can_be_left(fleet: Any, server: Any, eventually: Callable[..., Any]) -> None:
    content = fleet.content(MIB)
    partial, taker, leave = content.partial(fleet.into()), fleet.taker(stall_seconds=60.0), threading.Event()

    def silent(handler: Any) -> None:
        leave.wait(30)
        handler.close_connection = True

    copy = server(silent)
    waiting = fetch(copy, partial, 0)
    taker.fetches.submit(waiting)
    eventually(lambda: copy.asked)

    began = time.monotonic()
    waiting.cancel()

    assert taker.fetched.get(timeout=10).outcome is Outcome.cancelled
    assert time.monotonic() - began < 2
    leave.set()
