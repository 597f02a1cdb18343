"""One port of the service: an ASGI application on uvicorn, in a thread and an event loop of its own.

The two ports share nothing but the process: requests of tenants that wait for the database take no thread from the
beats of workers.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future
from threading import Thread
from typing import Any

import anyio.to_thread
import uvicorn
import uvloop

from headwater.rules.errors import BadSettings

_BACKLOG = 2_048
_WEBSOCKET_BYTES = 64 * 1024
"""Clients have nothing to say on a WebSocket of ours."""


class Server:
    """Bound when it is made, serving inside its block. Raises BadSettings where the address is not to be had."""

    def __init__(self, name: str, app: Any, host: str, port: int, *, threads: int, drain_seconds: float) -> None:
        self._name = name
        self._threads = threads
        self._socket = _listen(name, host, port)
        self._address: tuple[str, int] = self._socket.getsockname()[:2]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="websockets-sansio",
                ws_max_size=_WEBSOCKET_BYTES,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=max(1, round(drain_seconds)),
            )
        )
        self._thread = Thread(target=self._run, name=f"http-{name}", daemon=True)
        self._started: Future[asyncio.AbstractEventLoop] = Future()

    @property
    def url(self) -> str:
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that its handlers run in. Only inside the block."""
        return self._started.result()

    def alive(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Server:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Accepts nothing more; what is under way may finish. From any thread; does not wait."""
        self._server.should_exit = True

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            if self._started.done():
                raise
            self._started.set_exception(failure)

    async def _serve(self) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = self._threads
        self._started.set_result(asyncio.get_running_loop())
        await self._server.serve(sockets=[self._socket])


def _listen(name: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BadSettings(
            f"{host}:{port} is not to be had: {error.strerror}.",
            asked=f"The {name} port of the HTTP service was opened.",
            kept="Nothing was started.",
            advice="Stop what listens there, or give api.port and api.internal_port others.",
        ) from error
