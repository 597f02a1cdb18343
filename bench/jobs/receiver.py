"""The receiver of webhooks: it records each delivery, checks its signature, and now and then refuses one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from jobs.evidence import Received

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Heard:
    """One request that the receiver answered with 2xx, at ``at`` (seconds since 1970)."""

    received: Received
    at: float


class Receiver:
    """Listens while the block runs, in a thread with a loop of its own. ``url`` of a tenant is what its orders name;
    ``secrets`` are what the tenants were given to check signatures with.

    ``refusals`` is the share of webhooks that are answered 500 when they come first, by ``random``.
    """

    def __init__(self, secrets: Mapping[str, str], random: Random, refusals: float = 0.0) -> None:
        self.heard: list[Heard] = []
        self.port = 0
        self._secrets: dict[str, Webhook] = {}
        self.know(secrets)
        self._random = random
        self._refusals = refusals
        self._known: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="receiver", daemon=True)
        self._listening = threading.Event()
        self._stop = asyncio.Event()

    def know(self, secrets: Mapping[str, str]) -> None:
        self._secrets |= {tenant: Webhook(secret) for tenant, secret in secrets.items()}

    def url(self, tenant: str) -> str:
        return f"http://{HOST}:{self.port}/{tenant}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        if not self._listening.wait(10):
            raise TimeoutError("the receiver of webhooks does not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def received(self) -> list[Received]:
        return [heard.received for heard in self.heard]

    def _serve(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        application = web.Application()
        application.router.add_post("/{tenant}", self._hear)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        self.port = runner.addresses[0][1]
        self._listening.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _hear(self, request: web.Request) -> web.Response:
        body = await request.read()
        id = request.headers["webhook-id"]
        if id not in self._known:
            self._known.add(id)
            if self._random.random() < self._refusals:
                return web.Response(status=500)
        document = json.loads(body)
        data = document["data"]
        received = Received(
            id=id,
            type=document["type"],
            job=data["id"],
            signed=self._signed(request.match_info["tenant"], body, dict(request.headers)),
            data={name: json.dumps(value, sort_keys=True) for name, value in data.items()},
        )
        self.heard.append(Heard(received, time.time()))
        return web.Response(status=204)

    def _signed(self, tenant: str, body: bytes, headers: dict[str, str]) -> bool:
        try:
            self._secrets[tenant].verify(body, {name.lower(): value for name, value in headers.items()})
        except (WebhookVerificationError, KeyError):
            return False
        return True
