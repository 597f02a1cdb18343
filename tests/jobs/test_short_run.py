"""One seeded round of faults on a service of its own: no promise is broken, and the checker sees each that we break.

bench/run jobs-chaos does 20 such rounds, harder ones: 1,000 jobs, every kind of fault, a lease that is not cut to 2 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import psycopg
import pytest
from confluent_kafka import Producer
from inflicted import Fault
from jobs.checker import Finding, judge
from jobs.rounds import Chaos, Shape, installation

from headwater.schemas import codec
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind
from headwater.stack.s3 import client

pytestmark = [pytest.mark.stack, pytest.mark.fault, pytest.mark.timeout(600)]

SEED = 20_261_130
LEASE_SECONDS = 2.0
SHAPE = Shape(
    seeds=1, jobs=80, seconds=12, faults=0, away_seconds=1, workers=2, copies=1, lease_seconds=LEASE_SECONDS
)  # fmt: skip
FAULTS = [
    Fault("kill", "worker.2", 0.3, 1.0),
    Fault("stop", "worker.1", 2 * LEASE_SECONDS, 0.2),
    Fault("kill", "dispatch.1", 0.2, 0.2),
    Fault("restart", "postgres", 0.3, 0.3),
    Fault("cut-off", "worker.1", LEASE_SECONDS / 2, 0.2),
    Fault("kill", "api.1", 0.2, 0.2),
    Fault("restart", "kafka", 0.3, 0.2),
    Fault("kill", "outbox.1", 0.2, 0.2),
]


@dataclass(frozen=True)
class AtRest:
    """The installation after its round: nothing of ours runs any more, the servers do."""

    chaos: Chaos
    found: list[Finding]
    known: set[Finding] = field(default_factory=set)

    def judge(self) -> set[Finding]:
        """What was not found before."""
        clients, received = self.chaos.clients, self.chaos.receiver.received()
        found = set(judge(self.chaos.gatherer.gather(clients.submitted, clients.shown, received)))
        new = found - self.known
        self.known.update(found)
        return new

    def execute(self, text: str) -> None:
        """Past the triggers that forbid it."""
        with psycopg.connect(self.chaos.gatherer.dsn) as connection:
            connection.execute("SET session_replication_role = replica")
            assert connection.execute(text).rowcount == 1

    def produce(self, topic: str, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.chaos.service.addresses.kafka})
        producer.produce(self.chaos.service.prefix + topic, value)
        assert producer.flush(20) == 0


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtRest]:
    with installation(tmp_path_factory.mktemp("chaos"), SEED, SHAPE) as chaos:
        found = chaos.round(SEED, FAULTS)
        chaos.service.kill_all()
        yield AtRest(chaos, found)


def test_a_round_of_faults_breaks_no_promise(at_rest: AtRest) -> None:
    assert at_rest.found == []
    evidence = at_rest.chaos.gatherer.gather([], [], [])
    assert len(evidence.jobs) >= 70
    assert {job.state for job in evidence.jobs} >= {"completed", "failed"}
    assert max(attempt.epoch for attempt in evidence.attempts) >= 2, "somebody's lease was lost"
    assert {effect.what for effect in evidence.effects} >= {"granted", "claimed", "leased", "beat", "charged"}
    assert len(at_rest.chaos.receiver.received()) > 20


_COMPLETED = "(SELECT job FROM jobs.jobs WHERE state = 'completed' ORDER BY job LIMIT 1)"


def lose_a_job(at_rest: AtRest) -> None:
    at_rest.execute(f"DELETE FROM jobs.jobs WHERE job = {_COMPLETED}")


def put_it_back(at_rest: AtRest) -> None:
    at_rest.execute("UPDATE jobs.jobs SET state = 'queued' WHERE job = "
                    "(SELECT job FROM jobs.jobs WHERE state = 'completed' ORDER BY job DESC LIMIT 1)")  # fmt: skip


def complete_it_by_a_stale_attempt(at_rest: AtRest) -> None:
    at_rest.execute("UPDATE jobs.jobs SET result = jsonb_set(result, '{key}', to_jsonb('r/' || job || '/0/video.mp4'))"
                    " WHERE job = (SELECT max(job) FROM jobs.jobs WHERE state = 'completed')")  # fmt: skip


def win_twice(at_rest: AtRest) -> None:
    at_rest.execute("UPDATE jobs.attempts SET outcome = 'completed' WHERE (job, epoch) = "
                    "(SELECT job, min(a.epoch) FROM jobs.attempts a JOIN jobs.jobs j USING (job)"
                    " WHERE j.state = 'completed' AND j.epoch > 1 GROUP BY job LIMIT 1)")  # fmt: skip


def charge_for_another_attempt(at_rest: AtRest) -> None:
    at_rest.execute("UPDATE jobs.charges SET epoch = epoch + 1 WHERE job = (SELECT max(job) FROM jobs.charges)")


def lose_a_result(at_rest: AtRest) -> None:
    address = at_rest.chaos.gatherer.addresses.s3
    s3, bucket = client(address), urlsplit(address).path.strip("/")
    with psycopg.connect(at_rest.chaos.gatherer.dsn) as connection:
        row = connection.execute(
            "SELECT result ->> 'key' FROM jobs.jobs WHERE state = 'completed' ORDER BY job OFFSET 1 LIMIT 1"
        ).fetchone()
    assert row is not None
    s3.delete_object(Bucket=bucket, Key=row[0])


def tell_another_end(at_rest: AtRest) -> None:
    with psycopg.connect(at_rest.chaos.gatherer.dsn) as connection:
        row = connection.execute(
            "SELECT job, version, epoch, pool, tenant FROM jobs.jobs WHERE state = 'completed' LIMIT 1"
        ).fetchone()
    assert row is not None
    job, version, epoch, pool, tenant = row
    event = JobEvent(
        kind=JobEventKind.state, job=job, version=version + 1, epoch=epoch, state=EventState.failed, pool=pool,
        tenant=tenant, progress=0, reason="forged", at_us=0,
    )  # fmt: skip
    at_rest.produce("jobs.events", codec.encode(event))


@pytest.mark.parametrize(
    ("forge", "kind"),
    [
        (win_twice, "duplicate"),
        (complete_it_by_a_stale_attempt, "stale"),
        (charge_for_another_attempt, "stale"),
        (tell_another_end, "duplicate"),
        (lose_a_result, "lost"),
        (put_it_back, "disagreement"),
        (lose_a_job, "lost"),
    ],
)
def test_what_is_broken_on_purpose_is_found(at_rest: AtRest, forge: Callable[[AtRest], None], kind: str) -> None:
    forge(at_rest)
    assert kind in {finding.kind for finding in at_rest.judge()}
