"""Counts and times every answer by the route that gave it."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.observe import job_metrics

_NO_ROUTE = "none"
"""Of a path that is not there, a body too large, a key that is none: no client may make label values."""


class Measured:
    """A middleware, the outermost one. A stream's time is none: it lasts as long as its job."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            method = scope["method"] if route != _NO_ROUTE and status != 405 else _NO_ROUTE
            job_metrics.API_REQUESTS.labels(route, method, status).inc()
            if not route.endswith("/events"):
                job_metrics.API_SECONDS.labels(route, method).observe(time.perf_counter() - begun)
