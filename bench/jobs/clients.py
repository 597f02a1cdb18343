"""The clients of a chaotic round: they order, watch and cancel for as long as things fail, and note every answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from jobs.evidence import Shown, Submitted
from jobs.load import Client, shown_by, submitted
from jobs.orders import noop
from jobs.receiver import Receiver
from jobs.service import Tenant

SURE_SECONDS = 300.0
"""For so long an order is posted, and a job looked at, again and again."""
_LOOKERS = 8


@dataclass(frozen=True, slots=True)
class Order:
    """What a client wants. ``ends``: the states in which it may end; ``cancel_after``: seconds, None: never."""

    key: str
    tenant: Tenant
    body: dict[str, object]
    ends: frozenset[str] = frozenset({"completed"})
    cancel_after: float | None = None


def orders(
    random: Random, count: int, tenants: Sequence[Tenant], receiver: Receiver, prefix: str, longest: float
) -> list[Order]:
    """Mostly jobs that must complete; of a hundred some are cancelled, some late, some cannot succeed.

    ``longest``: seconds that the slowest takes.
    """
    made = []
    for number in range(count):
        tenant = random.choice(tenants)
        seconds = random.choice((0.0, 0.05, 0.2, longest))
        body: dict[str, object] = noop(f"{prefix} {number}", parameters={"seconds": seconds})
        body["priority"] = random.choice((0, 0, 0, -5, 5))
        if random.random() < 0.5:
            body["webhook_url"] = receiver.url(tenant.name)
        order = Order(f"{prefix}-{number}", tenant, body)
        kind = random.random()
        if kind < 0.07:
            ends = frozenset({"completed", "cancelled"})
            order = Order(order.key, tenant, body, ends, random.uniform(0, 3))
        elif kind < 0.11:
            body["deadline"] = int(time.time()) + random.randrange(2, 60)
            order = Order(order.key, tenant, body, frozenset({"completed", "expired"}))
        elif kind < 0.15:
            body["parameters"] = {"seconds": seconds, "fail": "invalid_input"}
            order = Order(order.key, tenant, body, frozenset({"failed"}))
        made.append(order)
    return made


class Clients:
    """Work in a thread with a loop of its own, each order with one of ``urls``; the next answer may be another's."""

    def __init__(self, urls: Sequence[str], tenants: Sequence[Tenant], random: Random) -> None:
        self._urls = urls
        self._tenants = tenants
        self._random = random
        self.submitted: list[Submitted] = []
        self.shown: list[Shown] = []
        self.refused: dict[str, str] = {}
        """By order: how it was refused for good, or never answered clearly."""
        self._looked_at: set[str] = set()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self, orders: Sequence[Order], over_seconds: float) -> None:
        """Order all of them, spread over so long."""
        self._thread = threading.Thread(target=self._run, args=[orders, over_seconds], name="clients", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Returns when every order has a clear answer, or none within ``SURE_SECONDS``. Raises what the thread met."""
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def look(self) -> None:
        """Note what the API says now of each job that was not looked at yet: at rest, so that this is its end."""
        asyncio.run(self._look([job for job in self._jobs() if job not in self._looked_at]))

    def _jobs(self) -> list[str]:
        return [job for one in self.submitted for job in dict.fromkeys(one.jobs)]

    def _run(self, orders: Sequence[Order], over_seconds: float) -> None:
        try:
            asyncio.run(self._order(orders, over_seconds))
        except BaseException as failure:
            self._failure = failure

    async def _order(self, orders: Sequence[Order], over_seconds: float) -> None:
        moments = sorted(self._random.uniform(0, over_seconds) for _ in orders)
        began = time.monotonic()
        async with _Connected(self._urls, self._tenants) as apis:
            tasks = []
            for order, moment in zip(orders, moments, strict=True):
                await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
                tasks.append(asyncio.create_task(self._one(apis, order)))
            await asyncio.gather(*tasks)

    async def _one(self, apis: _Connected, order: Order) -> None:
        """Post it, perhaps twice at once; cancel it; look at it now and then."""
        until = time.monotonic() + SURE_SECONDS
        twice = self._random.random() < 0.1
        posts = [
            apis.of(order.tenant, self._random).submit_surely(order.body, order.key, until)
            for _ in range(2 if twice else 1)
        ]
        answers = [answer for some in await asyncio.gather(*posts) for answer in some]
        self.submitted.append(submitted(order.key, order.tenant.name, order.ends, "webhook_url" in order.body, answers))
        jobs = self.submitted[-1].jobs
        if not jobs:
            self.refused[order.key] = f"{answers[-1].status}: {answers[-1].document}"
        if jobs and order.cancel_after is not None:
            await asyncio.sleep(order.cancel_after)
            await apis.of(order.tenant, self._random).cancel(jobs[0])
        for _ in range(2 if jobs else 0):
            await asyncio.sleep(self._random.uniform(0, 4))
            await self._see(apis, order.tenant, jobs[0])

    async def _look(self, jobs: Sequence[str]) -> None:
        whose = {job: one.tenant for one in self.submitted for job in one.jobs}
        tenants = {tenant.name: tenant for tenant in self._tenants}
        left, until = iter(jobs), time.monotonic() + SURE_SECONDS
        async with _Connected(self._urls, self._tenants) as apis:

            async def look() -> None:
                for job in left:
                    while not await self._see(apis, tenants[whose[job]], job) and time.monotonic() < until:
                        await asyncio.sleep(0.2)
                    self._looked_at.add(job)

            await asyncio.gather(*(look() for _ in range(_LOOKERS)))

    async def _see(self, apis: _Connected, tenant: Tenant, job: str) -> bool:
        """Whether there was an answer."""
        if (shown := shown_by(job, await apis.of(tenant, self._random).show(job))) is not None:
            self.shown.append(shown)
        return shown is not None


class _Connected:
    """A client of each tenant at each address."""

    def __init__(self, urls: Sequence[str], tenants: Sequence[Tenant]) -> None:
        self._clients = {tenant.name: [Client(url, tenant.key) for url in urls] for tenant in tenants}

    async def __aenter__(self) -> _Connected:
        for clients in self._clients.values():
            for one in clients:
                await one.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        for clients in self._clients.values():
            for one in clients:
                await one.__aexit__(*error)

    def of(self, tenant: Tenant, random: Random) -> Client:
        return random.choice(self._clients[tenant.name])
