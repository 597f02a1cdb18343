"""jobs-throughput: noop jobs a second from POST to completed, 50 slots, with an empty queue and with 100,000 queued.

Clients post as fast as jobs complete: at most ``IN_HAND`` of theirs wait at a time. Counted is what completes in a
window after a warm-up. The 100,000 are another tenant's, copied in the database from a job that was posted, and the
scheduler knows them before the window begins. Each measurement has a service and a database of its own; empty and full
take turns.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

import psycopg
from jobs.load import Client, crowd
from jobs.orders import noop
from jobs.service import POOL, Service, Tenant, Worker, serving
from measured import cpu_seconds
from processes import wait_until

from headwater.rules.errors import Unavailable
from headwater.rules.jobs.board import Board
from headwater.stack.addresses import Addresses

SLOTS = 50
IN_HAND = 400
CLIENTS = 48
QUEUED = 100_000
DEADLINE_SECONDS = 300
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    warm_up_seconds: float
    seconds: float
    queued: int


FULL = Size(rounds=3, warm_up_seconds=5, seconds=30, queued=QUEUED)
QUICK = Size(rounds=1, warm_up_seconds=2, seconds=6, queued=5_000)


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    """Returns the keys of the result."""
    size = QUICK if quick else FULL
    empty, full, used = [], [], {}
    for number in range(size.rounds):
        rate, used = measure(addresses, size, 0)
        empty.append(rate)
        full.append(measure(addresses, size, size.queued)[0])
        print(f"  CPU ms a job: { {name: round(s * 1000 / rate / size.seconds, 2) for name, s in used.items()} }")
        print(f"round {number + 1}: {empty[-1]:.0f} jobs/s, {full[-1]:.0f} with {size.queued:,} queued", flush=True)
    rate = statistics.median(empty)
    return {
        "jobs_per_s": round(rate, 1),
        "slowdown_at_100k": round(1 - statistics.median(full) / rate, 3),
        "jobs_per_s_at_100k": round(statistics.median(full), 1),
        "queued": size.queued,
        "rounds": [[round(one, 1), round(other, 1)] for one, other in zip(empty, full, strict=True)],
        "cpu_ms_per_job": {name: round(value * 1000 / rate / size.seconds, 2) for name, value in used.items()},
    }


def measure(addresses: Addresses, size: Size, queued: int) -> tuple[float, dict[str, float]]:
    """Jobs a second, and the CPU seconds of each program in the window."""
    with serving(addresses, [Worker("worker.1", SLOTS)], ["bench", "deep"]) as (service, (tenant, deep)):
        if queued:
            fill(service, deep, queued)
        return asyncio.run(_measure(service, tenant, size))


async def _measure(service: Service, tenant: Tenant, size: Size) -> tuple[float, dict[str, float]]:
    stop = asyncio.Event()
    async with Client(service.urls[0], tenant.key) as api:
        with psycopg.connect(service.addresses.postgres, autocommit=True) as connection:
            posting = asyncio.create_task(_keep_posting(api, tenant, connection, stop))
            await asyncio.sleep(size.warm_up_seconds)
            before, began = completed(connection), time.monotonic()
            mine = time.process_time()
            with cpu_seconds() as used:
                await asyncio.sleep(size.seconds)
                done, lasted = completed(connection) - before, time.monotonic() - began
            used["clients"] = time.process_time() - mine
            stop.set()
            await posting
    return done / lasted, used


async def _keep_posting(api: Client, tenant: Tenant, connection: psycopg.Connection, stop: asyncio.Event) -> None:
    """Clients post as long as few enough of the tenant's jobs are unfinished."""
    posted = 0
    while not stop.is_set():
        room = IN_HAND - (posted - completed(connection, tenant.name))
        if room <= 0:
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        answers = await crowd(CLIENTS, min(room, 2 * CLIENTS), lambda number: api.submit(noop(f"job {number}")))
        if refused := [answer for answer in answers if answer.status != 202]:
            raise Unavailable(f"a POST was answered {refused[0].status}: {refused[0].document} {api.failures[-1:]}")
        posted += len(answers)


def completed(connection: psycopg.Connection, tenant: str | None = None) -> int:
    """Jobs that completed so far, of one tenant or of all, by the sums of their charges."""
    query = "SELECT coalesce(sum(jobs), 0) FROM jobs.usage WHERE tenant = %s OR %s::text IS NULL"
    (count,) = connection.execute(query, [tenant, tenant]).fetchone() or (0,)
    return int(count)


def fill(service: Service, tenant: Tenant, count: int) -> None:
    """``count`` queued jobs of ``tenant``, as if they had been posted; returns when the log and the scheduler have
    them. No worker has any meanwhile."""
    service.kill("worker.1")

    async def one() -> str:
        async with Client(service.urls[0], tenant.key) as api:
            return (await api.submit(noop("the first of many"))).job

    first = asyncio.run(one())
    with psycopg.connect(service.addresses.postgres, autocommit=True) as connection:
        connection.execute("SET search_path = jobs")  # as the product's own connections have it, for its triggers
        columns = [
            name
            for (name,) in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'jobs' AND table_name = 'jobs'"
                " AND column_name NOT IN ('job', 'state', 'version', 'epoch')"
            )
        ]
        names = ", ".join(columns)
        for begin in range(0, count, 10_000):
            connection.execute(
                f"INSERT INTO jobs.jobs (job, {names}) SELECT job || '-' || number, {names}"
                " FROM jobs.jobs, generate_series(%s::int, %s::int) number WHERE job = %s",
                [begin, min(begin + 10_000, count) - 1, first],
            )

        def known() -> bool:
            told = connection.execute("SELECT count(*) FROM jobs.outbox").fetchone()
            return told == (0,) and _board_says(connection) >= count

        if not wait_until(known, DEADLINE_SECONDS):
            raise Unavailable(f"{count:,} queued jobs are not known to the scheduler after {DEADLINE_SECONDS} s")
    service.start("worker.1")
    if not wait_until(service.ready, DEADLINE_SECONDS):
        raise Unavailable("the worker did not come back")


def _board_says(connection: psycopg.Connection) -> int:
    """Queued jobs by the board that the scheduler publishes."""
    row = connection.execute("SELECT board FROM jobs.pools WHERE pool = %s", [POOL]).fetchone()
    return Board.from_json(row[0]).queued if row and row[0] else 0
