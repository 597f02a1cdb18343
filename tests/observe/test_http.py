import json
import urllib.error
import urllib.request

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.observe.config import HttpConfig
from headwater.observe.http import Health, ProcessServer
from headwater.schemas import codec, records
from headwater.schemas.registry import Registry


@pytest.fixture
def health():
    return [Health(True, "running")]


@pytest.fixture
def server(health, tmp_path):
    registry = Registry(lambda: ["fs.changes.lab"])
    with ProcessServer(HttpConfig(), registry, lambda: health[-1], tmp_path / "run" / "agent.http") as server:
        yield server


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_says_why_a_process_cannot_work(server, health):
    assert get(f"{server.url}/healthz")[0] == 200

    health.append(Health(False, "degraded", "S3 does not answer", {"since": 3}))
    status, body = get(f"{server.url}/healthz")

    assert status == 503
    assert json.loads(body) == {
        "healthy": False,
        "state": "degraded",
        "reason": "S3 does not answer",
        "facts": {"since": 3},
    }


def test_metrics_are_prometheus_text(server):
    status, body = get(f"{server.url}/metrics")

    assert status == 200
    assert "process_cpu_seconds_total" in body


def test_an_unknown_path_names_the_known_ones(server):
    status, body = get(f"{server.url}/nothing")

    assert status == 404
    assert "/healthz" in body


def test_the_address_is_in_the_file_while_the_server_runs(tmp_path):
    file = tmp_path / "run" / "agent.http"

    with ProcessServer(HttpConfig(), Registry(list), lambda: Health(True, "running"), file) as server:
        assert file.read_text().strip() == server.url

    assert not file.exists()


def test_confluents_own_client_decodes_our_records(server):
    change = records.FileChange(
        source="photos", path=b"a\xff", display="a", epoch=1, seq=2, kind=records.ChangeKind.created, hash=b"h" * 32
    )

    with SchemaRegistryClient({"url": server.url}) as client:
        deserialize = AvroDeserializer(client)
        plain = deserialize(codec.encode(change), SerializationContext("fs.changes.lab", MessageField.VALUE))

    assert plain["path"] == b"a\xff"
    assert plain["kind"] == "created"
    assert plain["hash"] == b"h" * 32


def test_confluents_own_client_reads_the_registrys_errors(server):
    with SchemaRegistryClient({"url": server.url}) as client:
        assert client.get_subjects() == ["fs.changes.lab-value"]
        assert client.get_latest_version("fs.changes.lab-value").schema_id == codec.newest("file_change").id
        with pytest.raises(SchemaRegistryError) as error:
            client.get_latest_version("other-value")
    assert error.value.error_code == 40401
