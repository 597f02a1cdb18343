"""The whole local stack, as ``headwater up`` starts it: the real servers, in a home and on ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.rules.errors import BadSettings, NotFound
from headwater.rules.jobs.keys import is_key
from headwater.settings import load
from headwater.stack import processes
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.home import local_variables
from headwater.stack.lakefs import call
from headwater.stack.local import Stack
from headwater.stack.s3 import client

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    """A running stack that these tests may kill."""
    home = Path(tempfile.mkdtemp(prefix="headwater-own-"))
    stack = Stack(home, asdict(Ports.free()), environment={})
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
        shutil.rmtree(home)


def pids(stack: Stack) -> dict[str, int]:
    return {name: running.pid for name in processes.names(stack.home) if (running := processes.alive(name, stack.home))}


def processes_of(home: Path) -> list[str]:
    """Every process of this machine that works in the home or was started with a path in it."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        places = [process.info["cwd"] or "", *(process.info["cmdline"] or [])]
        if any(str(home) in place for place in places):
            found.append(f"{process.info['pid']}: {places}")
    return found


def test_every_server_answers_a_real_call(own: Stack) -> None:
    addresses = own.addresses()

    assert len(AdminClient({"bootstrap.servers": addresses.kafka}).list_topics(timeout=10).brokers) == 1
    with psycopg.connect(addresses.postgres) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("headwater",)
        assert connection.info.server_version // 10_000 == 18
    assert [bucket["Name"] for bucket in client(addresses.s3).list_buckets()["Buckets"]] == ["headwater"]
    assert call(addresses.lakefs, "GET", "user")["user"]["id"] == "headwater"


def test_status_shows_each_server_with_its_memory_and_without_secrets(own: Stack) -> None:
    shown = {status.name: status for status in own.status()}

    assert {name: (status.state, status.answering) for name, status in shown.items()} == {
        "kafka": ("running", True), "postgres": ("running", True), "s3": ("running", True), "lakefs": ("running", True),
    }  # fmt: skip
    assert shown["postgres"].answer == "PostgreSQL 18.4"
    assert all(status.usage and 10_000_000 < status.usage.memory_bytes < 2_000_000_000 for status in shown.values())
    secrets = json.loads((own.home / "secrets.json").read_text(encoding="utf-8"))
    for key in ("postgres_password", "s3_secret_key", "lakefs_secret_key"):
        assert not any(secrets[key] in status.address for status in shown.values())


def test_secrets_are_for_the_owner_only(own: Stack) -> None:
    assert (own.home / "secrets.json").stat().st_mode & 0o077 == 0
    assert (own.home / "lakefs" / "lakefs.yaml").stat().st_mode & 0o077 == 0
    argv = " ".join(argument for name in processes.names(own.home) for argument in processes.alive(name, own.home).argv)  # type: ignore[union-attr]
    assert own.addresses().s3.split("@")[0].rsplit(":", 1)[1] not in argv


def test_up_on_a_running_stack_changes_nothing(own: Stack) -> None:
    before = pids(own)

    assert Stack(own.home, environment={}).up() == own.addresses()
    assert pids(own) == before
    assert own.running()


def test_a_broker_killed_outright_comes_back_with_up_and_keeps_its_records(
    own: Stack, kafka_prefix: str, eventually: Callable[..., object]
) -> None:
    kafka = own.addresses().kafka
    topic = f"{kafka_prefix}kept"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    producer.produce(topic, b"kept")
    assert producer.flush(30) == 0

    before = pids(own)
    os.kill(before["kafka"], signal.SIGKILL)
    eventually(lambda: processes.alive("kafka", own.home) is None)
    assert not own.running()
    own.up()

    after = pids(own)
    assert after.pop("kafka") != before.pop("kafka")
    assert after == before
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = eventually(lambda: consumer.poll(0.5), within_seconds=60)
        assert message.value() == b"kept"  # type: ignore[attr-defined]
    finally:
        consumer.close()


def test_two_ups_at_once_start_what_is_missing_once(own: Stack, eventually: Callable[..., object]) -> None:
    before = pids(own)
    os.kill(before["s3"], signal.SIGKILL)
    eventually(lambda: processes.alive("s3", own.home) is None)

    code = f"from headwater.stack.local import Stack; from pathlib import Path; Stack(Path({str(own.home)!r})).up()"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
    ups = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]

    assert [up.wait() for up in ups] == [0, 0]
    after = pids(own)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"s3"}
    assert sum("versitygw" in process for process in processes_of(own.home)) == 1


def test_lakefs_keeps_its_blocks_on_the_s3_server(own: Stack) -> None:
    addresses = own.addresses()
    repository = {"name": "wired", "storage_namespace": "s3://headwater/wired", "default_branch": "main"}
    call(addresses.lakefs, "POST", "repositories", repository)

    keys = [item["Key"] for item in client(addresses.s3).list_objects_v2(Bucket="headwater")["Contents"]]
    assert any(key.startswith("wired/") for key in keys)


def test_servers_that_the_environment_names_are_used_and_not_started(own: Stack, tmp_path: Path) -> None:
    given = own.addresses()
    stack = Stack(tmp_path / "home", asdict(Ports.free()), environment=given.environment())

    assert stack.up() == given
    assert {status.state for status in stack.status()} == {"external"}
    assert all(status.answering for status in stack.status())
    assert processes.names(tmp_path / "home") == []
    assert stack.down() == []
    assert own.running()


def test_a_port_that_another_program_holds_is_named_with_its_setting(tmp_path: Path, own: Stack) -> None:
    others = {key: value for key, value in own.addresses().environment().items() if key != "HEADWATER_S3"}
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        taken = stranger.getsockname()[1]
        stack = Stack(tmp_path / "home", asdict(Ports.free()) | {"s3": taken}, environment=others)
        with pytest.raises(BadSettings, match=rf"port {taken}.*stack\.s3_port"):
            stack.up()
    assert processes_of(tmp_path) == []


def test_a_running_server_is_not_moved_to_another_port(own: Stack) -> None:
    before = own.addresses()
    with pytest.raises(BadSettings, match="headwater down"):
        Stack(own.home, {"s3": Ports.free().s3}, environment={}).up()
    assert own.addresses() == before
    assert own.running()


def test_a_process_finds_the_stack_of_its_state_folder(own: Stack, tmp_path: Path) -> None:
    (tmp_path / "stack").symlink_to(own.home)
    found = local_variables(tmp_path)
    keys = {f"HEADWATER_{section}__KEY" for section in ("PEER", "WORKER", "CLIENT")}
    assert found == own.addresses().environment() | {name: found[name] for name in keys}
    settings = load(environment={"HEADWATER_STATE_FOLDER": str(tmp_path)}, local_stack=local_variables)
    made = json.loads((own.home / "secrets.json").read_text(encoding="utf-8"))
    assert (settings.peer.key, settings.worker.key) == (made["peer_key"], made["worker_key"])
    assert settings.client.key == made["api_key"]
    assert is_key(made["api_key"])
    assert local_variables(tmp_path / "elsewhere") == {}


def test_the_settings_move_a_port(tmp_path: Path) -> None:
    settings = load(environment={"HEADWATER_STACK__S3_PORT": "1717"}, folder=tmp_path)
    assert settings.stack.ports() == {"s3": 1717}


def test_a_home_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="headwater up"):
        Stack(tmp_path, environment={}).addresses()


def test_down_leaves_no_process_and_up_finds_the_same_state_again(own: Stack) -> None:
    before = own.addresses()
    with psycopg.connect(before.postgres) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    assert own.down() == ["lakefs", "s3", "postgres", "kafka"]
    assert processes_of(own.home) == []
    assert not own.running()
    assert {status.state for status in own.status()} == {"stopped"}

    assert Stack(own.home, environment={}).up() == before
    with psycopg.connect(before.postgres) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_each_test_gets_an_empty_database_and_an_empty_bucket_of_its_own(
    stack: Addresses, catalog_dsn: str, bucket: str
) -> None:
    assert catalog_dsn != stack.postgres
    with psycopg.connect(catalog_dsn) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)
    name = bucket.split("?")[0].rsplit("/", 1)[1]
    assert client(bucket).list_objects_v2(Bucket=name)["KeyCount"] == 0
