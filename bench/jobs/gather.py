"""The history of a run from the real servers, by plain clients: psycopg, confluent-kafka, boto3.

The catalog keeps how a job is, not how it came to be so: deferred triggers of the harness write each change down in
the transaction that makes it, with the epoch that was the job's newest at that moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import class_row
from whole_log import records

from headwater.schemas.job_records import GrantKind, JobEvent, JobEventKind, JobGrant, JobRequested
from headwater.schemas.records import Record
from headwater.stack.addresses import Addresses
from headwater.stack.s3 import client
from jobs.evidence import (
    Attempt,
    Change,
    Charge,
    Delivery,
    Effect,
    Event,
    Evidence,
    Granted,
    Job,
    Received,
    Shown,
    Submitted,
)

WATCH = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.changes (
    seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT clock_timestamp(),
    job text, before text, after text, version bigint, epoch bigint, result_epoch bigint
);
CREATE TABLE chaos.effects (
    seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT clock_timestamp(),
    what text, job text, epoch bigint, newest bigint
);
CREATE FUNCTION chaos.job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos.changes (job, before, after, version, epoch, result_epoch)
        VALUES (NEW.job, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.version, NEW.epoch,
                NEW.result_epoch);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.effect() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE what text := TG_ARGV[0];
BEGIN
    IF what = 'attempt' THEN
        what := CASE WHEN TG_OP = 'INSERT' THEN 'granted'
                     WHEN OLD.outcome IS DISTINCT FROM NEW.outcome THEN 'ended ' || coalesce(NEW.outcome, 'again')
                     ELSE 'claimed' END;
    END IF;
    INSERT INTO chaos.effects (what, job, epoch, newest)
        SELECT what, NEW.job, NEW.epoch, (SELECT epoch FROM jobs.jobs j WHERE j.job = NEW.job);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_insert AFTER INSERT ON jobs.jobs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.job();
CREATE CONSTRAINT TRIGGER chaos_update AFTER UPDATE ON jobs.jobs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.state, OLD.version, OLD.epoch, OLD.result_epoch)
          IS DISTINCT FROM (NEW.state, NEW.version, NEW.epoch, NEW.result_epoch))
    EXECUTE FUNCTION chaos.job();
CREATE CONSTRAINT TRIGGER chaos_grant AFTER INSERT ON jobs.attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.effect('attempt');
CREATE CONSTRAINT TRIGGER chaos_attempt AFTER UPDATE ON jobs.attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.claimed_at, OLD.outcome) IS DISTINCT FROM (NEW.claimed_at, NEW.outcome))
    EXECUTE FUNCTION chaos.effect('attempt');
CREATE CONSTRAINT TRIGGER chaos_lease AFTER INSERT ON jobs.leases
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.effect('leased');
CREATE CONSTRAINT TRIGGER chaos_beat AFTER UPDATE ON jobs.leases
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.effect('beat');
CREATE CONSTRAINT TRIGGER chaos_charge AFTER INSERT ON jobs.charges
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.effect('charged');
"""

_TOPICS = ("jobs.events", "jobs.requested", "jobs.grants")


class Gatherer:
    """``addresses`` lead around the proxies; Kafka is reached at ``kafka``, as its clients are told to, and its topics'
    names begin with ``prefix``. Objects are read once: no key is written twice."""

    def __init__(self, addresses: Addresses, kafka: str, prefix: str) -> None:
        self.addresses = addresses
        self.dsn = addresses.postgres
        self._kafka = kafka
        self._topics = frozenset(prefix + name for name in _TOPICS)
        self._s3 = client(addresses.s3)
        self._bucket = urlsplit(addresses.s3).path.strip("/")
        self._objects: dict[str, tuple[int, str]] = {}

    def watch(self) -> None:
        """From now on, note what happens to each job. To be called once, before the first of them."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(WATCH)

    def gather(self, submitted: Sequence[Submitted], shown: Sequence[Shown], received: Sequence[Received]) -> Evidence:
        """``submitted``, ``shown`` and ``received`` are what clients and the receiver recorded."""
        log = list(records(self._kafka, self._topics.__contains__))
        with psycopg.connect(self.dsn) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return Evidence(
                submitted=submitted,
                shown=shown,
                jobs=list(_jobs(connection)),
                changes=_rows(
                    connection, Change,
                    "SELECT job, before, after, version, epoch, result_epoch FROM chaos.changes ORDER BY seq",
                ),
                effects=_rows(connection, Effect, "SELECT what, job, epoch, newest FROM chaos.effects ORDER BY seq"),
                attempts=_rows(
                    connection, Attempt,
                    "SELECT job, epoch, worker, incarnation, claimed_at IS NOT NULL AS claimed, outcome"
                    " FROM jobs.attempts",
                ),
                charges=_rows(connection, Charge, "SELECT job, epoch, tenant, amount FROM jobs.charges"),
                deliveries=_rows(
                    connection, Delivery, "SELECT delivery AS id, job, type, state FROM jobs.deliveries"
                ),
                received=received,
                events=[event for record in log if (event := _event(record)) is not None],
                granted=[
                    Granted(record.job, record.epoch, record.worker, record.incarnation)
                    for record in log
                    if isinstance(record, JobGrant) and record.kind is GrantKind.granted
                ],
                objects=self._stored(),
                leased=[row[0] for row in connection.execute("SELECT job FROM jobs.leases")],
                untold=[row[0] for row in connection.execute("SELECT job FROM jobs.outbox")],
                used={
                    tenant: (int(amount), int(count))
                    for tenant, amount, count in connection.execute(
                        "SELECT tenant, sum(amount), sum(jobs) FROM jobs.usage GROUP BY tenant"
                    )
                },
            )  # fmt: skip

    def _stored(self) -> dict[str, tuple[int, str]]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix="r/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        for key in keys:
            if key not in self._objects:
                body = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
                self._objects[key] = (len(body), hashlib.sha256(body).hexdigest())
        return {key: self._objects[key] for key in keys}


def _jobs(connection: psycopg.Connection[Any]) -> Iterator[Job]:
    rows = connection.execute(
        "SELECT job, tenant, state, version, epoch, result_epoch, result, cost FROM jobs.jobs ORDER BY job"
    )
    for job, tenant, state, version, epoch, result_epoch, result, cost in rows:
        told = (result["key"], result["bytes"], result["sha256"]) if result else None
        yield Job(job, tenant, state, version, epoch, result_epoch, told, cost)


def _rows(connection: psycopg.Connection[Any], noun: type[Any], query: str) -> list[Any]:
    with connection.cursor(row_factory=class_row(noun)) as cursor:
        return cursor.execute(query).fetchall()


def _event(record: Record) -> Event | None:
    if isinstance(record, JobEvent) and record.kind is JobEventKind.state:
        return Event(record.job, record.version, record.epoch, record.state.value)
    if isinstance(record, JobRequested):
        return Event(record.job, record.version, record.epoch, "queued")
    return None
