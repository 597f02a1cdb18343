"""Who asks: every path below ``/v1/`` needs an API key, streams and WebSockets too. No route can be forgotten.

The catalog's word on a key is believed for a few seconds, so that a request costs no look-up: a revoked key works for
so long after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headwater.connectors.jobs import tenants
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.tenants import Tenant
from headwater.producers.api.problems import Kind, Problem, answer, of_error
from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.keys import is_key, key_hash

BELOW = "/v1/"
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    tenant: Tenant | None
    until: float


class Callers:
    """The tenants of keys. Safe for threads."""

    def __init__(self, database: JobsDatabase, key_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._key_seconds = key_seconds
        self._clock = clock
        self._lock = Lock()
        self._known: dict[bytes, _Known] = {}

    def known(self, key: bytes) -> tuple[bool, Tenant | None]:
        """Is the catalog's word on this key's hash still believed; and what it was. Never blocks for long."""
        with self._lock:
            known = self._known.get(key)
        if known is None or known.until <= self._clock():
            return False, None
        return True, known.tenant

    def read(self, key: bytes) -> Tenant | None:
        """What the catalog says now. Raises Unavailable."""
        with self._database.quiet() as transaction:
            tenant = tenants.of_key(transaction, key)
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _Known(tenant, self._clock() + self._key_seconds)
        return tenant


class Keys:
    """A middleware. The tenant of a request is ``caller(request)`` from here on."""

    def __init__(self, app: ASGIApp, callers: Callers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"].startswith(BELOW):
            refused = await self._admit(scope)
            if refused is not None:
                await _deny(refused, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Response | None:
        try:
            scope.setdefault("state", {})["caller"] = await self._tenant(HTTPConnection(scope))
        except Problem as problem:
            return answer(problem)
        except HeadwaterError as error:
            return answer(of_error(error))
        return None

    async def _tenant(self, request: HTTPConnection) -> Tenant:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not is_key(key):
            raise _unauthorized("Send an API key: `Authorization: Bearer hw_…`.")
        hashed = key_hash(key)
        is_known, tenant = self._callers.known(hashed)
        if not is_known:
            tenant = await run_in_threadpool(self._callers.read, hashed)
        if tenant is None:
            raise _unauthorized("This API key is not known, or was revoked.")
        if tenant.disabled:
            raise Problem(Kind.forbidden, "Ask who runs this service.")
        return tenant


def caller(request: HTTPConnection) -> Tenant:
    """The tenant whose key came with the request."""
    tenant = request.state.caller
    assert isinstance(tenant, Tenant)
    return tenant


def _unauthorized(detail: str) -> Problem:
    return Problem(Kind.unauthorized, detail, headers={"WWW-Authenticate": "Bearer"})


async def _deny(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)
