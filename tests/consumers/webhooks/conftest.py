"""A receiver of webhooks that answers as a path is told to, and remembers what it got."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Hook:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    url: str = ""
    answers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The statuses that a path answers in turn; then, and without any, 204. 0 hangs until the receiver is closed."""
    headers: dict[str, str] = field(default_factory=dict)
    said: bytes = b""
    got: list[Hook] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, path: str) -> list[Hook]:
        with self.lock:
            return [hook for hook in self.got if hook.path == path]


@contextmanager
def receiving(host: str = "127.0.0.1") -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with state.lock:
                state.got.append(Hook(self.path, {name.lower(): text for name, text in self.headers.items()}, body))
                status = state.answers[self.path].pop(0) if state.answers[self.path] else 204
            if status == 0:
                state.closing.wait(60)
                return
            self.send_response(status)
            for name, text in state.headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(state.said)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 1_024
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # senders hang up as they like

    server = Server((host, 0), Handler)
    state.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(name="receiving")
def receiving_fixture() -> Any:
    """``receiving`` as a fixture: one more receiver, at an address of its own."""
    return receiving
