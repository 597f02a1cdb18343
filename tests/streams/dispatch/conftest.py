"""A pool, its workers and jobs in a catalog of one test, and a log that tells the scheduler what the test wants."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka import offsets, topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.following import Following
from headwater.connectors.kafka.partitioning import partition_of
from headwater.rules.jobs.board import Board
from headwater.schemas.codec import decode, encode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind, JobGrant, JobRequested
from headwater.schemas.records import Record
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS, JOBS_REQUESTED, Topic
from headwater.streams.dispatch.dispatch import Dispatch

_PROCESS = """
import sys
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.cli.service import run_until_signalled
from headwater.streams.dispatch.dispatch import Dispatch
servers, prefix, dsn = sys.argv[1:]
with JobsDatabase(JobsConfig(dsn=dsn)) as database:
    run_until_signalled(Dispatch(database, Kafka(KafkaConfig(servers, prefix=prefix))))
"""


@dataclass
class JobsWorld:
    kafka: Kafka
    database: JobsDatabase
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _producer: Producer | None = None
    _grants: Following | None = None
    _read: list[JobGrant] = field(default_factory=list)

    # What is there

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with self.database.quiet() as transaction:
            cursor = transaction.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def pool(self, pool: str = "p") -> None:
        partition = partition_of(pool.encode(), JOBS_REQUESTED.partitions)
        self.query("INSERT INTO pools (pool, partition) VALUES (%s, %s)", pool, partition)

    def worker(self, worker: str, slots: int, pool: str = "p", incarnation: int = 1) -> None:
        partition = partition_of(worker.encode(), JOBS_GRANTS.partitions)
        self.query(
            "INSERT INTO workers (worker, incarnation, pool, slots, models, partition, host, seen_at)"
            " VALUES (%s, %s, %s, %s, '{m}', %s, 'here', now() + interval '1 hour')",
            *(worker, incarnation, pool, slots, partition),
        )

    def post(self, count: int = 1, tenant: str = "a", pool: str = "p", **columns: object) -> list[str]:
        """So many jobs, in the catalog; nobody is told of them."""
        given = {"cost_seconds": 1.0, "priority": 0, "deadline": None, "seconds": "1"} | columns
        rows = self.query(
            "INSERT INTO jobs (job, tenant, pool, model, size, seconds, request, cost_seconds, priority, deadline)"
            " SELECT 'video_' || replace(uuidv7()::text, '-', ''), %s, %s, 'm', '8x8', %s, '{}', %s, %s, %s"
            " FROM generate_series(1, %s) RETURNING job",
            *(tenant, pool, given["seconds"], given["cost_seconds"], given["priority"], given["deadline"], count),
        )
        return [job for (job,) in rows]

    def end(self, job: str, state: str = "completed") -> None:
        """As its worker would have it."""
        with self.database.quiet() as transaction:
            transaction.execute("UPDATE jobs SET state = 'running' WHERE job = %s AND state = 'granted'", [job])
            final = "now()" if state != "queued" else "NULL"
            transaction.execute(f"UPDATE jobs SET state = %s, completed_at = {final} WHERE job = %s", [state, job])
            transaction.execute("DELETE FROM leases WHERE job = %s", [job])

    def states(self) -> dict[str, tuple[str, int]]:
        """State and epoch of each job."""
        return {job: (state, epoch) for job, state, epoch in self.query("SELECT job, state, epoch FROM jobs")}

    def granted(self) -> set[str]:
        return {job for (job,) in self.query("SELECT job FROM leases")}

    def board(self, pool: str = "p") -> Board | None:
        [(board,)] = self.query("SELECT board FROM pools WHERE pool = %s", pool)
        return Board.from_json(board) if board is not None else None

    @contextmanager
    def locked(self, pool: str) -> Iterator[None]:
        """Nobody can write to the pool's row meanwhile, by a session that the server lets idle."""
        with psycopg.connect(self.database.config.dsn) as connection:
            connection.execute("SELECT FROM jobs.pools WHERE pool = %s FOR UPDATE", [pool])
            yield

    def someone_waits(self) -> bool:
        """Does a session of this database wait for a lock?"""
        return bool(
            self.query(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    def owner_epoch(self, pool: str = "p") -> int:
        return int(self.query("SELECT owner_epoch FROM pools WHERE pool = %s", pool)[0][0])

    # The log

    def relay(self) -> None:
        """Tell the log all that the outbox has, as the outbox's relay does."""
        rows = self.query(
            "DELETE FROM outbox RETURNING job, version, epoch, state, pool, tenant, model, size, seconds, priority,"
            " cost_seconds, (extract(epoch FROM queued_at) * 1000000)::bigint,"
            " (extract(epoch FROM deadline) * 1000000)::bigint"
        )
        for job, version, epoch, state, pool, tenant, model, size, seconds, priority, cost, queued, deadline in rows:
            if state == "queued":
                request = JobRequested(
                    job=job, version=version, epoch=epoch, pool=pool, tenant=tenant, model=model, size=size,
                    seconds=seconds, priority=priority, cost_seconds=cost, queued_us=queued, deadline_us=deadline,
                )  # fmt: skip
                self.say(JOBS_REQUESTED, pool, request)
            event = JobEvent(
                kind=JobEventKind.state, job=job, version=version, epoch=epoch, state=EventState(state), pool=pool,
                tenant=tenant, progress=0, reason="", at_us=0,
            )  # fmt: skip
            self.say(JOBS_EVENTS, pool, event)

    def say(self, topic: Topic, pool: str, record: Record | bytes) -> None:
        self._producer = self._producer or self.kafka.producer(linger_ms=0)
        value = record if isinstance(record, bytes) else encode(record)
        key = record.key() if isinstance(record, Record) else b"?"
        partition = partition_of(pool.encode(), topic.partitions)
        self._producer.produce(self.kafka.physical(topic), key=key, value=value, partition=partition)
        self._producer.flush(10)

    def told(self) -> list[JobGrant]:
        """What workers were told so far, since the first call at the latest."""
        if self._grants is None:
            places = offsets.partitions(self.kafka, JOBS_GRANTS.name)
            self._grants = Following(self.kafka, offsets.beginnings(self.kafka, places))
        for message in self._grants.read(0.0):
            record = decode(message.value())
            assert isinstance(record, JobGrant)
            self._read.append(record)
        return self._read

    # Schedulers

    @contextmanager
    def scheduling(self, database: JobsDatabase | None = None, kafka: Kafka | None = None) -> Iterator[Dispatch]:
        """One in a thread; afterwards it left its group."""
        dispatch = Dispatch(database or self.database, kafka or self.kafka)
        thread = Thread(target=dispatch.run, daemon=True)
        thread.start()
        try:
            yield dispatch
        finally:
            dispatch.stop()
            thread.join(30)
            assert not thread.is_alive()

    def start(self) -> subprocess.Popen[bytes]:
        """One in a process of its own, for who wants to kill it."""
        config = self.kafka.config
        arguments = [config.bootstrap_servers, config.prefix, self.database.config.dsn]
        process = subprocess.Popen([sys.executable, "-c", _PROCESS, *arguments], stdout=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        if self._grants is not None:
            self._grants.close()
        self.database.close()


@pytest.fixture
def world(stack: Any, catalog_dsn: str) -> Iterator[JobsWorld]:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}."))
    topics.apply(kafka, (JOBS_REQUESTED, JOBS_EVENTS, JOBS_GRANTS))
    database = JobsDatabase(JobsConfig(dsn=catalog_dsn))
    database.migrate()
    world = JobsWorld(kafka, database)
    world.pool()
    yield world
    world.close()
