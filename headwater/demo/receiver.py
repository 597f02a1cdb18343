"""The demo's receiver of webhooks: what a user's own would do: check the signature, and know what was seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


@dataclass(frozen=True, slots=True)
class Received:
    """One POST. ``right``: its signature is."""

    id: str
    right: bool
    type: str
    job: str


class Receiver:
    """Listens on the loopback inside its block. ``secret`` is the tenant's, ``whsec_…``."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)
        self._received: list[Received] = []
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="receiver")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/videos"

    def received(self) -> Sequence[Received]:
        with self._lock:
            return tuple(self._received)

    def take(self, headers: dict[str, str], body: bytes) -> bool:
        """Note what came; whether it is from who shares the secret."""
        try:
            said: Any = self._webhook.verify(body, headers)
            right = True
        except WebhookVerificationError:
            said, right = json.loads(body), False
        one = Received(headers.get("webhook-id", ""), right, said["type"], said["data"]["id"])
        with self._lock:
            self._received.append(one)
        return right

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            right = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(204 if right else 401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing: the demo's screen is the demo's."""

    return Handler
