"""What every process shows over HTTP: its metrics, its health, and the schemas of the records it handles.

    GET /metrics    Prometheus text
    GET /healthz    200 while the process does its work, 503 when it cannot; JSON that says why
    the registry    read only, see schemas/registry.py: point a Kafka console at any headwater process

One server thread, one more a request. A process without a fixed port takes a free one and leaves its address in a
file, where ``headwater status`` finds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from headwater.observe import logs
from headwater.observe.config import HttpConfig
from headwater.schemas import registry
from headwater.schemas.registry import Registry

log = logs.logger()


@dataclass(frozen=True, slots=True)
class Health:
    """``state`` in a word (running, paused, degraded, stopping), ``reason`` in a sentence, ``facts`` for programs."""

    healthy: bool
    state: str
    reason: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


class ProcessServer:
    """Serves until it is closed. ``health`` is called in a request's thread: it must not block."""

    def __init__(
        self, config: HttpConfig, registry: Registry, health: Callable[[], Health], address_file: Path | None = None
    ) -> None:
        handler = type("Handler", (_Handler,), {"registry": registry, "health": staticmethod(health)})
        self._server = ThreadingHTTPServer((config.host, config.port), handler)
        self._server.daemon_threads = True
        self._address_file = address_file
        self._thread = Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> ProcessServer:
        self._thread.start()
        if self._address_file is not None:
            self._address_file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._address_file.with_suffix(".http.new")
            unfinished.write_text(self.url + "\n", "utf-8")
            unfinished.replace(self._address_file)
        log.info("http.serving", url=self.url)
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._address_file is not None:
            self._address_file.unlink(missing_ok=True)


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    health: Callable[[], Health]
    protocol_version = "HTTP/1.1"
    server_version = "headwater"
    timeout = 30  # a client that keeps its connection open and says nothing gives its thread back

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._send(200, content_type, encode(REGISTRY))
        elif path == "/healthz":
            health = self.health()
            self._send_json(200 if health.healthy else 503, "application/json", asdict(health))
        elif self.registry.serves(path):
            self._ask_registry()
        else:
            self._send_json(
                404, "application/json", {"error": f"no {path} here", "try": ["/metrics", "/healthz", "/subjects"]}
            )

    def do_POST(self) -> None:
        self._ask_registry()

    do_PUT = do_DELETE = do_POST

    def _ask_registry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.registry.answer(self.command, self.path.partition("?")[0], body)
        self._send_json(answer.status, registry.CONTENT_TYPE, answer.body)

    def _send_json(self, status: int, content_type: str, body: object) -> None:
        self._send(status, content_type, json.dumps(body, default=str).encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("http.answered", request=format % args)
