"""What can be known of the stack in containers without a Docker engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import stack_containers

from headwater.stack.compose import servers
from headwater.stack.description import image


def keys(name: str) -> str:
    return f"secret-of-{name}"


def test_no_engine_is_told_from_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert not stack_containers.engine_answers()


def test_containers_are_what_compose_says_with_ports_and_secrets_of_their_own() -> None:
    ports = {"19092": "50001", "15432": "50002", "17070": "50003", "18000": "50004"}
    planned = {name: stack_containers.plan(service, keys, ports) for name, service in servers().items()}

    assert {name: one["image"] for name, one in planned.items()} == {
        "kafka": image("kafka"),
        "postgres": image("postgres"),
        "s3": image("s3"),
        "lakefs-setup": image("lakefs"),
        "lakefs": image("lakefs"),
    }
    kafka = planned["kafka"]
    assert kafka["ports"] == {50001: 50001}, "clients come back to the port that the broker names"
    assert kafka["env"]["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://kafka:9092,HOST://127.0.0.1:50001"
    assert kafka["env"]["KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"] == "1"
    assert kafka["env"]["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == "1"
    assert planned["postgres"]["ports"] == {5432: 50002}
    assert planned["s3"]["ports"] == {7070: 50003}
    assert planned["s3"]["volumes"] == [["objects", "/objects"], ["versions", "/versions"]]
    assert planned["lakefs"]["ports"] == {8000: 50004}
    assert planned["s3"]["env"]["ROOT_SECRET_KEY"] == "secret-of-S3_SECRET_KEY"
    assert planned["lakefs"]["env"]["LAKEFS_DATABASE_POSTGRES_CONNECTION_STRING"] == (
        "postgresql://headwater:secret-of-POSTGRES_PASSWORD@postgres:5432/lakefs"
    )
    assert '"$ACCESS_KEY"' in planned["lakefs-setup"]["entrypoint"][2]
    assert "${" not in str(planned)
