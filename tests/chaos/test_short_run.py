"""One seeded round of faults on a stack of its own: no promise is broken, and the checker sees each that we break.

bench/run sync-chaos does at least 20 such rounds, harder ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest
from blake3 import blake3
from chaos.checker import Finding, judge
from chaos.faults import LONG_SECONDS
from chaos.journal import State
from chaos.members import DATASET, PREFIX, SITE
from chaos.rounds import Chaos, Shape, installation
from confluent_kafka import Producer
from inflicted import Fault

from headwater.schemas import codec
from headwater.schemas.records import ChangeKind, DatasetVersion, DeadLetter, FileChange
from headwater.stack.s3 import client

pytestmark = [pytest.mark.stack, pytest.mark.fault, pytest.mark.timeout(600)]

SEED = 20_261_130
FAULTS = [
    Fault("kill", "agent", 0.3, 1.0),
    Fault("drop", "s3", 0.2, 0.5),
    Fault("kill", "upload-parts", 0.3, 0.3),
    Fault("stop", "upload-files", LONG_SECONDS, 0.3),
    Fault("restart", "kafka", 0.5, 0.5),
    Fault("half-close", "s3", 0.5, 0.5),
    Fault("second-committer", "", 2.0, 0.2),
    Fault("kill", "verify-objects", 0.2, 0.2),
    Fault("restart", "postgres", 0.5, 0.5),
    Fault("second-agent", "", 0.2, 0.2),
]


EDITED = b"edited.mov"
"""A file that one version holds in its first state and the next two in its second."""


@dataclass(frozen=True)
class AtRest:
    """The installation after its round: nothing of ours runs any more, the servers do."""

    chaos: Chaos
    found: list[Finding]

    def execute(self, text: str, *values: object) -> None:
        with psycopg.connect(self.chaos.gatherer.addresses.postgres) as connection:
            connection.execute(text, values)

    def produce(self, topic: str, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.chaos.gatherer.kafka})
        producer.produce(PREFIX + topic, value)
        assert producer.flush(20) == 0


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtRest]:
    shape = Shape(rounds=1, seconds=30, away_seconds=1, large_every=40, files=120)
    with installation(tmp_path_factory.mktemp("chaos"), SEED, shape) as chaos:
        found = chaos.round(FAULTS)
        for path, content in ((EDITED, b"first"), (EDITED, b"second"), (b"another.mov", b"a version more")):
            (chaos.members.root / path.decode()).write_bytes(content)
            chaos.workload.journal.note(path, State(hash=blake3(content).digest()))
            found += chaos.come_to_rest()
        chaos.members.kill_all()
        yield AtRest(chaos, found)


def test_a_round_of_faults_breaks_no_promise(at_rest: AtRest) -> None:
    assert at_rest.found == []
    evidence = at_rest.chaos.gatherer.gather()
    assert len(evidence.versions) >= 2
    assert len(evidence.source) > 30
    assert any(request.part for request in evidence.requests if request.succeeded), "a large file was sent in parts"


def lose_a_file(at_rest: AtRest) -> None:
    (at_rest.chaos.members.root / "while nobody looks.mov").write_bytes(b"nobody saw it")


def mix_an_object(at_rest: AtRest) -> None:
    s3, bucket = at_rest.chaos.gatherer.s3, at_rest.chaos.gatherer.bucket
    key = s3.list_objects_v2(Bucket=bucket, Prefix="objects/")["Contents"][0]["Key"]
    s3.put_object(Bucket=bucket, Key=key, Body=b"half of one, half of another")


def put_an_older_state_back(at_rest: AtRest) -> None:
    """In the newest version, the state that a path had in an older one, under a newer clock: no clock tells."""
    last = at_rest.chaos.gatherer.gather().versions[-1].number
    at_rest.execute(
        "INSERT INTO version_changes SELECT %s, %s, source, path, 99, 99, 'changed', file_type, hash, generation, size,"
        " mtime_ns, mode, uid, gid, link_target, guarantee FROM version_changes WHERE dataset = %s AND path = %s"
        " AND hash = %s ORDER BY version LIMIT 1"
        " ON CONFLICT (dataset, version, source, path) DO UPDATE SET hash = EXCLUDED.hash, epoch = 99, seq = 99",
        DATASET, last, DATASET, EDITED, blake3(b"first").digest(),
    )  # fmt: skip


def announce_a_version_twice(at_rest: AtRest) -> None:
    announced = at_rest.chaos.gatherer.gather().announced[0]
    assert isinstance(announced, DatasetVersion)
    at_rest.produce("dataset.versions", codec.encode(announced))


def publish_a_version_twice(at_rest: AtRest) -> None:
    at_rest.execute(
        "INSERT INTO versions (dataset, version, parent, epoch, state, cut, commit_id, manifest_hash)"
        " SELECT dataset, version + 1, version, epoch, state, cut, commit_id, manifest_hash FROM versions"
        " WHERE dataset = %s AND state = 'published' ORDER BY version DESC LIMIT 1",
        DATASET,
    )


def send_an_object_again(at_rest: AtRest) -> None:
    bucket = at_rest.chaos.gatherer.bucket
    s3 = client(at_rest.chaos.through_proxies.s3)
    key = s3.list_objects_v2(Bucket=bucket, Prefix="objects/")["Contents"][-1]["Key"]
    s3.put_object(Bucket=bucket, Key=key, Body=s3.get_object(Bucket=bucket, Key=key)["Body"].read())


def smuggle_a_file_in(at_rest: AtRest) -> None:
    at_rest.execute(
        "INSERT INTO version_changes SELECT dataset, version, source, 'never was.mov', 98, 98, 'added', file_type,"
        " hash, generation, size, mtime_ns, mode, uid, gid, link_target, guarantee FROM version_changes"
        " WHERE dataset = %s AND change = 'added' AND hash IS NOT NULL ORDER BY version DESC LIMIT 1",
        DATASET,
    )


def say_two_things_with_one_clock(at_rest: AtRest) -> None:
    said = next(one for one in at_rest.chaos.gatherer.gather().changes if one.kind is ChangeKind.created)
    assert isinstance(said, FileChange)
    at_rest.produce(f"fs.changes.{SITE}", codec.encode(replace(said, path=b"another.mov")))


def bury_a_record(at_rest: AtRest) -> None:
    dead = DeadLetter(topic="t", partition=0, offset=1, group="g", error="E", message="m", stack="")
    at_rest.produce("dead.letters", codec.encode(dead))


@pytest.mark.parametrize(
    ("forge", "kind"),
    [
        (send_an_object_again, "resent_part"),
        (put_an_older_state_back, "older"),
        (smuggle_a_file_in, "foreign"),
        (lose_a_file, "lost"),
        (mix_an_object, "mixed"),
        (announce_a_version_twice, "duplicate_version"),
        (say_two_things_with_one_clock, "disagreement"),
        (bury_a_record, "buried"),
        (publish_a_version_twice, "duplicate_version"),
    ],
)
def test_what_is_broken_on_purpose_is_found(at_rest: AtRest, forge: Callable[[AtRest], None], kind: str) -> None:
    before = {*judge(at_rest.chaos.gatherer.gather())}
    forge(at_rest)
    new = {*judge(at_rest.chaos.gatherer.gather())} - before
    assert kind in {finding.kind for finding in new}
