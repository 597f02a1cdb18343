"""How soon a job is another worker's when its own dies: kill -9 on an idle fleet, as often as is asked."""

from __future__ import annotations

import asyncio
import time

import psycopg
from processes import wait_until

from headwater.rules.errors import Unavailable
from jobs.load import Client
from jobs.orders import noop
from jobs.service import Service, Tenant

_DEADLINE_SECONDS = 120.0
_WORK_SECONDS = 1.0


def second_attempt(service: Service, tenant: Tenant, number: int) -> float:
    """Seconds from kill -9 of the worker that has the only job, until another has claimed it. The fleet is whole and
    idle again when this returns."""
    job = asyncio.run(_submit(service, tenant, f"quiet {number}"))
    worker, _ = _claim(service, job, 1)
    killed_at = time.time()
    service.kill(worker)
    _, claimed_at = _claim(service, job, 2)
    service.start_all()
    if not wait_until(lambda: service.ready() and _idle(service), _DEADLINE_SECONDS):
        raise Unavailable(f"{worker} did not come back, or {job} did not end")
    return claimed_at - killed_at


async def _submit(service: Service, tenant: Tenant, prompt: str) -> str:
    async with Client(service.urls[0], tenant.key) as api:
        return (await api.submit(noop(prompt, parameters={"seconds": _WORK_SECONDS}))).job


def _claim(service: Service, job: str, epoch: int) -> tuple[str, float]:
    """Who claimed that attempt, and when (seconds since 1970, by the database on this host)."""
    query = """
        SELECT worker, extract(epoch FROM claimed_at)::float8 FROM jobs.attempts
        WHERE job = %s AND epoch = %s AND claimed_at IS NOT NULL
    """
    deadline = time.monotonic() + _DEADLINE_SECONDS
    with psycopg.connect(service.addresses.postgres, autocommit=True) as connection:
        while (row := connection.execute(query, [job, epoch]).fetchone()) is None:
            if time.monotonic() > deadline:
                raise Unavailable(f"nobody claimed attempt {epoch} of {job} within {_DEADLINE_SECONDS:.0f} s")
            time.sleep(0.01)
    return row[0], row[1]


def _idle(service: Service) -> bool:
    with psycopg.connect(service.addresses.postgres) as connection:
        row = connection.execute("SELECT count(*) FROM jobs.jobs WHERE completed_at IS NULL").fetchone()
    return row == (0,)
