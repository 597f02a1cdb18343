"""What stands before every handler: a bound on the body, and an answer even where a handler breaks.

It is plain ASGI, so that it costs microseconds and leaves streams alone.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.observe import logs
from headwater.producers.api.problems import Kind, Problem, answer

log = logs.logger()


class Guard:
    """A middleware: ``app.add_middleware(Guard, body_bytes=…)``."""

    def __init__(self, app: ASGIApp, body_bytes: int) -> None:
        self._app = app
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        if self._announced(scope) > self._body_bytes:
            detail = f"The body is larger than {self._body_bytes} bytes."
            await answer(Problem(Kind.too_large, detail, headers={"Connection": "close"}))(scope, receive, send)
            return
        try:
            await self._app(scope, self._bounded(receive), sending)
        except Exception as failure:
            log.error("api.broke", path=scope["path"], exc_info=failure)
            if started:  # half an answer was sent: only a cut connection can say that it is no whole one
                raise
            detail = "This is no fault of the request. The log of the service has it."
            await answer(Problem(Kind.internal, detail))(scope, receive, send)

    @staticmethod
    def _announced(scope: Scope) -> int:
        lengths = (value for name, value in scope["headers"] if name == b"content-length")
        return max((int(value) for value in lengths if value.isdigit()), default=0)

    def _bounded(self, receive: Receive) -> Receive:
        came = 0

        async def receiving() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._body_bytes:
                raise HTTPException(413)  # of all errors only these pass through what parses bodies
            return message

        return receiving
