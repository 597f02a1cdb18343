"""What a command does not need it does not import: a library takes from a tenth of a second to a whole one."""

import subprocess
import sys

import pytest

CLIENTS = {"boto3", "confluent_kafka", "lakefs_sdk", "obstore", "psycopg", "pyarrow"}


@pytest.fixture
def imported(tmp_path, environment):
    """Runs a command and returns the packages that its process imported."""

    def imported(*arguments: str) -> set[str]:
        ended = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "headwater.cli", *arguments],
            env={"HEADWATER_STATE_FOLDER": str(tmp_path / "state"), "HEADWATER_SITE": "lab", **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
        names = [line.rpartition("|")[2].strip() for line in lines]
        assert "headwater.cli.app" in names, ended.stderr
        return {name.partition(".")[0] for name in names} | set(names)

    return imported


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_needs_no_settings_loads_no_settings(imported, option):
    assert not imported(option) & (CLIENTS | {"pydantic", "structlog"})


@pytest.mark.parametrize(
    ("arguments", "client"),
    [
        (["lag"], "confluent_kafka"),
        (["topics"], "confluent_kafka"),
        (["dead"], "confluent_kafka"),
        (["progress", "--once"], "psycopg"),
    ],
)
@pytest.mark.usefixtures("on_stack")
def test_a_command_loads_the_client_of_the_server_that_it_asks(imported, arguments, client):
    assert imported(*arguments) & CLIENTS == {client}


@pytest.mark.parametrize("group", ["upload-files", "verify-objects"])
@pytest.mark.usefixtures("on_stack")
def test_members_load_neither_lakefs_nor_parquet(imported, environment, group):
    environment["HEADWATER_S3__BUCKET"] = "absent"  # so that it ends, with all behind it that it imports

    found = imported("run", group)

    assert {"headwater.streams.runtime.member", "boto3", "confluent_kafka"} <= found
    assert not found & {"lakefs_sdk", "pyarrow"}


@pytest.mark.usefixtures("on_stack")
def test_the_agent_loads_neither_lakefs_nor_parquet_nor_s3(imported):
    found = imported("sync", "no-such-folder", "--source", "photos", "--once")

    assert "headwater.producers.filesystem.agent" in found
    assert not found & {"lakefs_sdk", "pyarrow", "boto3", "obstore"}


@pytest.mark.usefixtures("on_stack")
def test_a_peer_loads_kafka_and_no_other_client(imported, environment):
    environment["HEADWATER_PEER__INTO"] = "casts"  # without a key it ends, with all behind it that it imports

    found = imported("peer")

    assert "headwater.consumers.peer.swarm.swarm" in found
    assert found & CLIENTS == {"confluent_kafka"}
