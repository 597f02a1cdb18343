"""jobs-fairness: a tenant sends ten jobs while another has flooded the queue with 10,000: when does its tenth start?

Four slots, jobs of one second, both tenants of equal weight. ``alone``: ten jobs on an idle fleet, five times;
``flooded``: the same while the other's jobs wait. Measured is from the tenth's POST to its claim by a worker.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

import psycopg
from jobs.load import Answer, Client, crowd
from jobs.orders import noop
from jobs.service import Service, Tenant, Worker, serving

from headwater.rules.errors import Unavailable
from headwater.stack.addresses import Addresses

SLOTS, JOBS, CLIENTS = 4, 10, 16
DEADLINE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    flood: int


FULL = Size(rounds=5, flood=10_000)
QUICK = Size(rounds=1, flood=500)


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    """Returns the keys of the result."""
    size = QUICK if quick else FULL
    worker = Worker("worker.1", SLOTS, options={"seconds": 1, "max_batch": 1})
    with serving(addresses, [worker], ["small", "large"]) as (service, (small, large)):
        alone = [asyncio.run(_tenth(service, small)) for _ in range(size.rounds)]
        asyncio.run(_flood(service, large, size.flood))
        flooded = [asyncio.run(_tenth(service, small)) for _ in range(size.rounds)]
    alone_s, flooded_s = statistics.median(alone), statistics.median(flooded)
    return {
        "small_tenant_ratio": round(flooded_s / alone_s, 2),
        "alone_s": round(alone_s, 2),
        "flooded_s": round(flooded_s, 2),
        "bar_s": round(2 * alone_s + 1, 2),
        "flood": size.flood,
        "rounds": [[round(one, 2), round(other, 2)] for one, other in zip(alone, flooded, strict=True)],
    }


async def _flood(service: Service, tenant: Tenant, count: int) -> None:
    async with Client(service.urls[0], tenant.key) as api:
        answers = await crowd(CLIENTS, count, lambda number: api.submit(noop(f"flood {number}")))
    if refused := [answer for answer in answers if answer.status != 202]:
        raise Unavailable(f"{len(refused)} of {count} POSTs of the flood were refused: {refused[0].document}")


async def _tenth(service: Service, tenant: Tenant) -> float:
    """Seconds from the POST of the last of ten jobs to its claim. All ten have ended when this returns."""
    async with Client(service.urls[0], tenant.key) as api:
        answers = [await api.submit(noop(f"small {number}")) for number in range(JOBS)]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not await _all_completed(api, answers):
            if time.monotonic() > deadline:
                raise Unavailable(f"ten jobs did not complete within {DEADLINE_SECONDS} s")
            await asyncio.sleep(0.2)
    with psycopg.connect(service.addresses.postgres) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM min(claimed_at))::float8 FROM jobs.attempts WHERE job = %s", [answers[-1].job]
        ).fetchone()
    assert row is not None
    return float(row[0]) - answers[-1].sent_at


async def _all_completed(api: Client, answers: list[Answer]) -> bool:
    shown = [(await api.show(answer.job)).document for answer in answers]
    return all(one.get("status") == "completed" for one in shown)
