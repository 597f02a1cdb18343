"""What a person can get wrong: each mistake ends in a sentence that says what to do, never in a traceback."""

import json
import re
from dataclasses import asdict
from urllib.parse import urlsplit, urlunsplit

import pytest
from confluent_kafka.cimpl import NewTopic

from headwater.stack.description import Ports
from headwater.stack.home import stack_home


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["upp"], 2, "Did you mean 'up'"),
        (["inspect"], 2, "Missing argument"),
        (["lag", "--every", "soon"], 2, "valid number"),
        (["dead", "redrive"], 2, "give --all"),
        (["lag"], 78, "kafka.bootstrap_servers is not set"),
        (["progress"], 78, "catalog.dsn is not set"),
        (["run", "upload-file"], 66, "no group 'upload-file'"),
        (["run", "commit"], 78, "is not set"),
        (["--config", "gone.toml", "lag"], 78, "gone.toml does not exist"),
        (["--set", "kafka.bootstrap_server=b:1", "lag"], 78, "kafka.bootstrap_servers?"),
        (["--set", "s3.secret_access_key=x", "lag"], 78, "would show a secret"),
        (["logs", "nobody"], 66, "headwater up"),
    ],
)
def test_a_mistake_is_named_with_its_fix(command, arguments, code, says):
    ended = command(*arguments)

    assert ended.code == code, ended.err
    assert says in " ".join(ended.err.replace("│", " ").split())
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_a_wrong_file_is_named_with_its_line(command, tmp_path):
    (tmp_path / "headwater.toml").write_text("site = 'lab'\nkafka = [\n")

    ended = command("lag")

    assert ended.code == 78
    assert "headwater.toml is not TOML" in " ".join(ended.err.split())


def test_a_mistake_in_json_mode_is_json(command):
    ended = command("lag", "--json", "--every", "soon")

    assert ended.code == 2
    assert "--every" in json.loads(ended.err)["happened"]


def test_a_local_stack_that_is_stopped_is_named_with_the_command_that_starts_it(command, tmp_path):
    home = stack_home(tmp_path / "state")
    home.mkdir(parents=True)
    (home / "ports.json").write_text(json.dumps(asdict(Ports.free())))

    ended = command("progress", "--json", HEADWATER_CATALOG__CONNECT_SECONDS="1")

    assert ended.code == 69
    assert "`headwater up` starts it" in json.loads(ended.err)["next"]


def test_a_broker_that_does_not_answer_is_named(command):
    ended = command("topics", "describe", "--json", HEADWATER_KAFKA="127.0.0.1:1")

    assert ended.code == 69
    error = json.loads(ended.err)
    assert error["error"] == "Unavailable"
    assert "127.0.0.1:1" in error["happened"]
    assert "HEADWATER_KAFKA" in error["next"]
    assert ended.out == ""


@pytest.mark.usefixtures("on_stack")
def test_a_member_with_a_wrong_s3_key_does_not_start(command, environment, bucket):
    parts = urlsplit(bucket)
    environment["HEADWATER_S3"] = urlunsplit(parts._replace(netloc=parts.netloc.replace(parts.password, "wrong")))

    ended = command("run", "verify-objects")

    assert ended.code == 77
    assert "HEADWATER_S3" in ended.err
    assert "kept" in ended.err
    assert "Traceback" not in ended.err


def test_a_topic_with_another_partition_count_is_named_with_both_counts(command, on_stack, eventually):
    assert command("topics", "apply").code == 0
    name = on_stack.physical("sync.verified")
    on_stack.admin().delete_topics([name])[name].result(30)
    on_stack.admin().create_topics([NewTopic(name, 5, 1)])[name].result(30)
    eventually(lambda: len(on_stack.admin().list_topics(name, timeout=5).topics[name].partitions) == 5)

    ended = command("run", "verify-objects")

    said = " ".join(ended.err.split())
    assert ended.code == 78
    assert "sync.verified" in said
    assert re.search(r"\b12\b.*\b5\b|\b5\b.*\b12\b", said), said
    assert "headwater topics" in said
