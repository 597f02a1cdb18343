"""`headwater why`: one sentence, whatever state a group, an agent or a committer is in."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from headwater.cli.service import address_file
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.observe.config import HttpConfig
from headwater.observe.http import Health, ProcessServer
from headwater.schemas import codec
from headwater.schemas.records import ObjectStored
from headwater.schemas.registry import Registry
from headwater.schemas.topics import SYNC_OBJECTS, catalogue, fs_changes
from headwater.stack.processes import start_detached, stop

pytestmark = pytest.mark.stack
STORED = ObjectStored(hash=b"\xcd" * 32, generation=1, size=3, source="photos")


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, catalogue(("lab",)))
    return on_stack


@pytest.fixture
def catalog(on_stack, catalog_dsn):  # noqa: ARG001
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def produce(kafka, value: bytes, *, seconds_ago: float) -> None:
    producer = kafka.producer()
    at = int((time.time() - seconds_ago) * 1000)
    producer.produce(kafka.physical(SYNC_OBJECTS), key=STORED.key(), value=value, partition=0, timestamp=at)
    producer.flush(10)


@pytest.fixture
def member(kafka, eventually):
    """A live member of the group that reads nothing more once it holds its partitions."""
    consumer = kafka.consumer("verify-objects")
    consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)
    yield consumer
    consumer.close()


@pytest.fixture
def process(tmp_path):
    """A process of ours on this host, as far as it shows: its health, at its known place."""
    servers = []

    def process(name: str, state: str, reason: str = "", pid: int = 4711, **facts) -> None:
        health = Health(state in ("running", "paused"), state, reason, facts)
        file = address_file(Path(tmp_path / "state"), name, pid)
        server = ProcessServer(HttpConfig(), Registry(list), lambda: health, file)
        servers.append(server.__enter__())

    yield process
    for server in servers:
        server.__exit__(None, None, None)


def said(command, *arguments: str) -> dict[str, str]:
    ended = command("why", *arguments, "--json")
    assert ended.code == 0, ended.err
    return ended.json


def test_a_group_without_a_member_is_stopped(kafka, command):
    produce(kafka, codec.encode(STORED), seconds_ago=3600)
    consumer = kafka.consumer("verify-objects")
    consumer.commit(offsets=[TopicPartition(kafka.physical(SYNC_OBJECTS), 0, 0)], asynchronous=False)
    consumer.close()

    now = said(command, "verify-objects")

    assert now["sentence"] == ("verify-objects is stopped: it has no member; 1 record waits, the oldest for 1 h 0 min")
    assert now["next"] == "Start one with `headwater run verify-objects`."


def test_a_group_that_does_not_move_is_stuck_at_a_record_that_is_named(kafka, command, member):  # noqa: ARG001
    produce(kafka, codec.encode(STORED), seconds_ago=600)

    now = said(command, "verify-objects")

    assert now["state"] == "stuck"
    assert "in sync.objects/0 nothing committed for" in now["sentence"]
    assert f"it stands before ObjectStored of {'cd' * 32} at offset 0" in now["sentence"]
    assert (now["record"]["type"], now["record"]["record"]["size"], now["members"]) == ("ObjectStored", 3, 1)


def test_a_record_that_does_not_decode_is_named_with_the_reason(kafka, command, member):  # noqa: ARG001
    produce(kafka, b"garbage", seconds_ago=600)

    now = said(command, "verify-objects")

    assert "a record that does not decode (" in now["sentence"]
    assert now["record"]["record"] is None


def test_a_member_that_waits_says_for_what_and_since_when(kafka, command, member, process):  # noqa: ARG001
    produce(kafka, codec.encode(STORED), seconds_ago=600)
    process(
        "verify-objects", "degraded", "S3 at http://s3 does not answer.",
        transactional_id="verify-objects.host-7.0", since=time.time() - 3 * 3600,
    )  # fmt: skip

    now = said(command, "verify-objects")

    assert now["state"] == "waiting"
    assert "its member verify-objects.host-7.0 for 3 h 0 min: S3 at http://s3 does not answer." in now["sentence"]


def test_a_member_that_paused_its_partitions_says_since_when_and_at_what(kafka, command, member, process):  # noqa: ARG001
    produce(kafka, codec.encode(STORED), seconds_ago=30)
    process("verify-objects", "paused", transactional_id="verify-objects.host-7.0", since=time.time() - 2 * 3600)

    now = said(command, "verify-objects")

    assert now["state"] == "paused"
    assert "its member verify-objects.host-7.0 for 2 h 0 min" in now["sentence"]
    assert "ObjectStored of cdcd" in now["sentence"]


def test_a_process_of_this_host_that_lives_and_does_not_answer_is_named(kafka, command, tmp_path):
    state = tmp_path / "state"
    hung = start_detached("verify-objects", ["sleep", "60"], dict(os.environ), state)
    file = address_file(state, "verify-objects", hung.pid)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("http://127.0.0.1:1\n")
    produce(kafka, codec.encode(STORED), seconds_ago=600)
    consumer = kafka.consumer("verify-objects")
    consumer.commit(offsets=[TopicPartition(kafka.physical(SYNC_OBJECTS), 0, 0)], asynchronous=False)
    consumer.close()
    try:
        now = said(command, "verify-objects")
    finally:
        stop("verify-objects", state)

    assert now["state"] == "stuck"
    assert f"its process {hung.pid} on this host lives and does not answer, and 1 record waits" in now["sentence"]
    assert f"kill -9 {hung.pid}" in now["next"]
    assert said(command, "verify-objects")["state"] == "stopped", "what a dead process left behind does not count"


def test_a_group_with_nothing_to_do_is_running(command, member):  # noqa: ARG001
    assert said(command, "verify-objects")["sentence"] == "verify-objects is running: 1 member, nothing waits"


def test_an_unknown_name_names_those_that_there_are(kafka, command):
    consumer = kafka.consumer("verify-large")
    consumer.commit(offsets=[TopicPartition(kafka.physical(SYNC_OBJECTS), 0, 0)], asynchronous=False)
    consumer.close()

    ended = command("why", "verify")

    assert ended.code == 66
    assert "verify-large, agent-SOURCE" in ended.err


def test_a_group_is_explained_by_its_member_while_kafka_is_away(command, process, environment):
    environment["HEADWATER_KAFKA"] = "127.0.0.1:1"
    process("upload-files", "degraded", "Kafka at 127.0.0.1:1 does not answer.", pid=9, since=time.time() - 3600)

    now = said(command, "upload-files")

    assert now["state"] == "waiting"
    assert "with pid 9 for 1 h 0 min: Kafka at 127.0.0.1:1 does not answer" in now["sentence"]


def own(catalog, *, heartbeat_seconds_ago: float, stopped: bool = False) -> None:
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions, heartbeat_at, "
            "stopped_at) VALUES ('photos', 'lab', '/p', 'main', 1, gen_random_uuid(), 'host-9 4711', 6, "
            "now() - make_interval(secs => %s), CASE WHEN %s THEN now() END)",
            [heartbeat_seconds_ago, stopped],
        )
        transaction.execute(
            "INSERT INTO exceptions (source, path, epoch, seq, reason, active) "
            "SELECT 'photos', convert_to('busy-' || n, 'UTF8'), 1, n, 'busy: somebody writes', n <= 7 "
            "FROM generate_series(1, 9) n"
        )


def put_off(catalog, lane: str, *, contents: int, hours_ago: float) -> None:
    """As an upload group has it that found the root of photos away; it tried again just now."""
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, claim_epoch, "
            "detail, deferred_at) SELECT sha256(convert_to(%s || n, 'UTF8')), 1, 'uploading', 1, 'photos', %s, 0, 1, "
            "'its root /p cannot be opened here: No such file or directory.', "
            "now() - make_interval(secs => 3600 * %s * n / %s) FROM generate_series(1, %s) n",
            [lane, lane, hours_ago, contents, contents],
        )


def test_an_upload_group_says_what_waits_for_a_root_while_all_else_goes_on(kafka, command, catalog, eventually):
    own(catalog, heartbeat_seconds_ago=0)
    put_off(catalog, "fs.changes.lab", contents=3, hours_ago=2)
    put_off(catalog, "fs.parts.lab", contents=1, hours_ago=5)
    consumer = kafka.consumer("upload-files.lab")
    consumer.subscribe([kafka.physical(fs_changes("lab"))])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)

    now = said(command, "upload-files")
    consumer.close()

    assert now["sentence"] == (
        "upload-files.lab is running: 1 member, nothing waits; of photos 3 contents wait for its root, for 2 h 0 min: "
        "its root /p cannot be opened here: No such file or directory"
    )
    assert now["next"].startswith("Mount photos on this host, or set upload.roots.SOURCE")
    assert now["put_off"]["photos"]["count"] == 3


@pytest.mark.parametrize(
    ("ago", "stopped", "state", "why"),
    [
        (0, False, "running", "was heard"),
        (7200, False, "silent", "last heard 2 h 0 min"),
        (7200, True, "stopped", "said"),
    ],
)
def test_an_agent_of_another_host_is_explained_by_its_heartbeat(catalog, command, ago, stopped, state, why):
    own(catalog, heartbeat_seconds_ago=ago, stopped=stopped)

    now = said(command, "agent-photos")

    assert now["state"] == state
    assert why in now["sentence"]
    assert "busy-1 (busy: somebody writes)" in now["sentence"]
    assert "and 2 more" in now["sentence"]


def test_a_halted_agent_says_why(catalog, command, process):
    own(catalog, heartbeat_seconds_ago=1)
    process("agent-photos", "halted", "the root /p is empty, and 812 files were there.", files=812)

    ended = command("why", "agent-photos", COLUMNS="80")

    assert ended.out.startswith("agent-photos is halted: the root /p is empty, and 812 files were there.")
    assert "Nothing is sent or deleted until that is mended." in ended.out


def test_a_source_that_never_was_is_not_found(catalog, command):  # noqa: ARG001
    assert command("why", "agent-nobody").code == 66


def test_a_committer_that_is_not_there_says_what_waits(catalog, command):
    assert "never had one" in said(command, "commit-main")["sentence"]
    with catalog.transaction() as transaction:
        transaction.execute("INSERT INTO datasets (dataset, repository, uncommitted) VALUES ('main', 'main', 12)")

    now = said(command, "commit")

    assert now["sentence"] == (
        "commit-main is stopped: no committer of it runs on this host; no version was published yet, "
        "12 changes wait for the next one"
    )


def test_a_committer_that_runs_or_waits_says_so(catalog, command, process):
    with catalog.transaction() as transaction:
        transaction.execute("INSERT INTO datasets (dataset, repository, head) VALUES ('main', 'main', 1)")
        transaction.execute(
            "INSERT INTO versions (dataset, version, epoch, state, cut, published_at) "
            "VALUES ('main', 1, 1, 'published', '{}', %s)",
            [datetime.now(UTC)],
        )
    process("commit-main", "running", dataset="main")
    process("commit-other", "degraded", "lakeFS does not answer.", dataset="other")

    assert "running: version 1 was published" in said(command, "commit-main")["sentence"]
    assert said(command, "commit-other")["sentence"] == "commit-other is waiting: lakeFS does not answer."
