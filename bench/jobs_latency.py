"""jobs-latency: how long a POST takes at 200 a second, and until the model of a job starts on an idle fleet.

POSTs: all processes of the service run, and no worker does (workers have hosts of their own, and jobs-throughput
measures all together on two cores); ``post_busy_*`` is the same while 50 slots of the noop model work off what comes.
Requests come at an even rate and wait for nobody; a request's time is from its sending to its whole answer.

Start: one job at a time, at random moments, on an idle fleet of 50 slots. The clock starts when the POST is sent and
stops in the model itself, which writes the time of its begin into its output. Where the time goes on the way is read
afterwards: ``accepted`` (the 202 is here), ``on_the_log`` (jobs.requested), ``granted`` (the catalog), ``told``
(jobs.grants), ``claimed`` (the catalog), ``started``, ``completed``.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from urllib.parse import urlsplit

import psycopg
from jobs.load import Answer, Client, at_rate
from jobs.orders import milliseconds, noop
from jobs.service import Service, Tenant, Worker, serving

from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import Unavailable
from headwater.schemas.job_records import JobGrant, JobRequested
from headwater.stack.addresses import Addresses
from headwater.stack.s3 import client

RATE = 200
SLOTS = 50
DEADLINE_SECONDS = 120
BEGINNING = Start("beginning")


@dataclass(frozen=True, slots=True)
class Size:
    post_seconds: float
    busy_seconds: float
    starts: int
    longest_pause_seconds: float


FULL = Size(post_seconds=60, busy_seconds=30, starts=300, longest_pause_seconds=0.5)
QUICK = Size(post_seconds=5, busy_seconds=3, starts=30, longest_pause_seconds=0.2)
WARM_UP = 20


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    """Returns the keys of the result."""
    size = QUICK if quick else FULL
    workers = [Worker("worker.1", SLOTS)]
    with serving(addresses, workers, ["bench"]) as (service, (tenant,)):
        starts = asyncio.run(_start_one_by_one(service, tenant, size))
        stages = dict(_stages(service, starts))
        busy = asyncio.run(_posts(service, tenant, size.busy_seconds))
        service.kill("worker.1")
        posts = asyncio.run(_posts(service, tenant, size.post_seconds))
    for name, seconds in stages.items():
        print(f"{name:<12}{statistics.median(seconds) * 1000:7.1f} ms after the POST, in the median")
    started = stages["started"]
    return {
        **_summary("post", posts),
        "start_p50_ms": milliseconds(started, 0.5),
        "start_p99_ms": milliseconds(started, 0.99),
        "errors": sum(answer.status != 202 for answer in [*posts, *busy]),
        **_summary("post_busy", busy),
        "posts": len(posts),
        "starts": len(started),
        "ms_until": {name: milliseconds(seconds, 0.5) for name, seconds in stages.items()},
    }


async def _posts(service: Service, tenant: Tenant, seconds: float) -> list[Answer]:
    async with Client(service.urls[0], tenant.key) as api:
        await at_rate(RATE, WARM_UP, lambda number: api.submit(noop(f"warm {number}")))
        return await at_rate(
            RATE, int(RATE * seconds), lambda number: api.submit(noop(f"post {number}"), f"{time.time_ns()}")
        )


async def _start_one_by_one(service: Service, tenant: Tenant, size: Size) -> list[Answer]:
    """Each when the one before it is completed; the first few only warm everything up."""
    random, answers = Random(1), []
    async with Client(service.urls[0], tenant.key) as api:
        for number in range(WARM_UP + size.starts):
            await asyncio.sleep(random.uniform(0, size.longest_pause_seconds))
            answer = await api.submit(noop(f"start {number}"))
            await _completed(api, answer)
            answers.append(answer)
    return answers[WARM_UP:]


async def _completed(api: Client, answer: Answer) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (shown := await api.show(answer.job)).document.get("status") != "completed":
        if time.monotonic() > deadline:
            raise Unavailable(f"{answer.job} is not completed after {DEADLINE_SECONDS} s: {shown.document}")
        await asyncio.sleep(0.02)


def _stages(service: Service, answers: list[Answer]) -> Iterator[tuple[str, list[float]]]:
    """Seconds after the POST at which each job reached each stage."""
    sent = {answer.job: answer.sent_at for answer in answers}
    kafka = Kafka(KafkaConfig(service.addresses.kafka, prefix=service.prefix))
    yield "accepted", [answer.seconds for answer in answers]
    for stage, topic, record in (("on_the_log", "jobs.requested", JobRequested), ("told", "jobs.grants", JobGrant)):
        yield (
            stage,
            [
                seen.timestamp_ms / 1000 - sent[seen.record.job]
                for seen in browse(kafka, topic, BEGINNING)
                if isinstance(seen.record, record) and seen.record.job in sent
            ],
        )
    query = """
        SELECT job, extract(epoch FROM granted_at)::float8, extract(epoch FROM claimed_at)::float8,
               extract(epoch FROM completed_at)::float8
        FROM jobs.jobs JOIN jobs.attempts USING (job) WHERE job = ANY(%s)
    """
    with psycopg.connect(service.addresses.postgres) as connection:
        rows = connection.execute(query, [list(sent)]).fetchall()
    for number, stage in enumerate(("granted", "claimed", "completed"), 1):
        yield stage, [row[number] - sent[row[0]] for row in rows]
    yield "started", [began - sent[job] for job, began in _begins(service, list(sent))]


def _begins(service: Service, jobs: list[str]) -> Iterator[tuple[str, float]]:
    """When the model of each job began: the first line of its output, in nanoseconds."""
    s3, bucket = client(service.addresses.s3), urlsplit(service.addresses.s3).path.strip("/")
    with psycopg.connect(service.addresses.postgres) as connection:
        keys = connection.execute("SELECT job, result ->> 'key' FROM jobs.jobs WHERE job = ANY(%s)", [jobs]).fetchall()
    for job, key in keys:
        output = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        yield job, int(output.partition(b"\n")[0]) / 1e9


def _summary(name: str, answers: list[Answer]) -> dict[str, float]:
    seconds = [answer.seconds for answer in answers]
    return {f"{name}_p50_ms": milliseconds(seconds, 0.5), f"{name}_p99_ms": milliseconds(seconds, 0.99)}
