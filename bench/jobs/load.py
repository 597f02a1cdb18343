"""Clients of the public API, cheap enough to share two cores with it, and the rates at which they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from headwater.rules.errors import Unavailable
from jobs.evidence import Shown, Submitted

VIDEOS = "/v1/videos"
_CLEAR = frozenset({202, 400, 403, 404, 413, 422})


@dataclass(frozen=True, slots=True)
class Answer:
    """``status`` 0: none came. ``sent_at`` is seconds since 1970, ``seconds`` how long the answer took."""

    status: int
    document: Mapping[str, Any]
    sent_at: float
    seconds: float
    retry_after: float = 0.0

    @property
    def job(self) -> str:
        """Raises Unavailable where it names none."""
        if self.status != 202:
            raise Unavailable(f"A POST was answered {self.status}: {self.document}")
        return str(self.document["id"])


class Client:
    """One tenant's connections to the API, kept open. To be entered within a running loop."""

    def __init__(self, url: str, key: str, *, connections: int = 64, timeout_seconds: float = 10.0) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self.failures: list[str] = []
        """What went wrong without an answer."""

    async def __aenter__(self) -> Client:
        connector = aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def submit(self, order: Mapping[str, Any], key: str | None = None) -> Answer:
        headers = {"Idempotency-Key": key} if key else {}
        return await self._ask("POST", VIDEOS, headers=headers, json=order)

    async def show(self, job: str) -> Answer:
        return await self._ask("GET", f"{VIDEOS}/{job}")

    async def cancel(self, job: str) -> Answer:
        return await self._ask("POST", f"{VIDEOS}/{job}/cancel")

    async def submit_surely(self, order: Mapping[str, Any], key: str, until: float) -> list[Answer]:
        """Post it until an answer is clear, or until then (``time.monotonic``): every answer."""
        answers: list[Answer] = []
        while True:
            answers.append(await self.submit(order, key))
            if answers[-1].status in _CLEAR or time.monotonic() > until:
                return answers
            await asyncio.sleep(min(max(answers[-1].retry_after, 0.2), 2.0))

    async def _ask(self, method: str, path: str, **more: Any) -> Answer:
        sent_at, began = time.time(), time.perf_counter()
        try:
            async with self._session.request(method, self._url + path, **more) as response:
                document = await response.json(content_type=None) if response.content_length != 0 else {}
                after = response.headers.get("Retry-After", "0")
                retry_after = float(after) if after.isdigit() else 0.0
                return Answer(response.status, document or {}, sent_at, time.perf_counter() - began, retry_after)
        except (TimeoutError, aiohttp.ClientError, ValueError) as failure:
            self.failures.append(repr(failure))
            return Answer(0, {}, sent_at, time.perf_counter() - began)


async def at_rate(rate: float, count: int, one: Callable[[int], Awaitable[Answer]]) -> list[Answer]:
    """``count`` requests, evenly spaced and not waiting for each other. The generator's own lateness is the caller's
    to see: ``sent_at`` against the schedule."""
    began = time.monotonic()
    tasks = []
    for number in range(count):
        delay = began + number / rate - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        tasks.append(asyncio.create_task(_answered(one, number)))
    return list(await asyncio.gather(*tasks))


async def _answered(one: Callable[[int], Awaitable[Answer]], number: int) -> Answer:
    return await one(number)


async def crowd(clients: int, count: int, one: Callable[[int], Awaitable[Answer]]) -> list[Answer]:
    """``count`` requests by ``clients`` that each wait for one answer before they ask again."""
    left = iter(range(count))

    async def ask() -> list[Answer]:
        return [await one(number) for number in left]

    return [answer for answers in await asyncio.gather(*(ask() for _ in range(clients))) for answer in answers]


def shown_by(job: str, answer: Answer) -> Shown | None:
    """None where there was no answer about it."""
    if answer.status != 200:
        return None
    return Shown(job, str(answer.document["status"]), int(answer.document.get("attempt") or 0))


def submitted(key: str, tenant: str, ends: frozenset[str], hears: bool, answers: Sequence[Answer]) -> Submitted:
    """What is known of an order after all these answers to it."""
    return Submitted(key, tenant, tuple(answer.job for answer in answers if answer.status == 202), ends, hears)
