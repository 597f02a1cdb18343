"""The commands that look into the log, on the real servers."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.connectors.kafka import topics
from headwater.schemas import codec
from headwater.schemas.records import ChangeKind, DeadLetter, FileChange, FileType, Header, ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, SYNC_OBJECTS, catalogue, fs_changes

pytestmark = pytest.mark.stack
CHANGES = fs_changes("lab")
CHANGE = FileChange(
    source="photos", path=b"a/b\xff.jpg", display="a/b", epoch=1, seq=2, kind=ChangeKind.created,
    file_type=FileType.regular, size=9, hash=b"\xab" * 32, mode=0o644,
)  # fmt: skip


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, catalogue(("lab",)))
    return on_stack


def produce(kafka, topic, *pairs, partition=0, **more):
    producer = kafka.producer()
    for key, value in pairs:
        producer.produce(kafka.physical(topic), key=key, value=value, partition=partition, **more)
    producer.flush(10)


@pytest.mark.usefixtures("on_stack")
def test_topics_are_described_made_and_mended(command):
    missing = command("topics", "describe", "--json").json
    assert len(missing["differences"]) == len(catalogue(("lab",)))

    assert command("topics", "apply").code == 0

    assert command("topics", "--json").json["differences"] == []
    assert "Every topic is as it should be" in command("topics", "apply").out
    shown = command("topics").out
    assert "fs.changes.lab" in shown
    assert "for ever" in shown


def test_a_topic_with_another_partition_count_is_refused_with_advice(on_stack, command):
    topics.apply(on_stack, [replace(SYNC_OBJECTS, partitions=3)])

    ended = command("topics", "apply", "--json")

    assert ended.code == 78
    assert "sync.objects has partitions 3, expected 12" in json.loads(ended.err)["happened"]


def test_inspect_shows_records_and_garbage(kafka, command):
    produce(kafka, CHANGES, (CHANGE.key(), codec.encode(CHANGE)), (b"photos\x00x", b"gar[bage"), (b"photos\x00y", None))

    ended = command("inspect", CHANGES.name)

    assert ended.code == 0
    assert "photos/a/b\\xff.jpg" in ended.out
    assert "hash " + "ab" * 32 in ended.out
    assert "mode 644" in ended.out
    assert "starts with byte 0x67" in ended.out
    assert "gar[bage" in ended.out
    assert "tombstone" in ended.out


def test_inspect_in_json_is_a_record_a_line(kafka, command):
    produce(kafka, CHANGES, (CHANGE.key(), codec.encode(CHANGE)), (b"photos\x00x", b"\xffgarbage"), headers={"a": b"b"})

    change, garbage = command("inspect", CHANGES.name, "--json").lines

    assert change["record"]["type"] == "FileChange"
    assert change["record"]["hash"] == "ab" * 32
    assert change["record"]["path"] == {"hex": CHANGE.path.hex()}
    assert change["headers"] == {"a": "b"}
    assert garbage["record"] is None
    assert garbage["value_hex"] == b"\xffgarbage".hex()
    assert "0xff" in garbage["problem"]


def test_inspect_finds_by_key_from_a_place_and_stops(kafka, command):
    produce(kafka, CHANGES, *((b"photos\x00%d.jpg" % number, codec.encode(CHANGE)) for number in range(20)))

    found = command("inspect", CHANGES.name, "--json", "--key", "photos/1", "--from", "2", "--limit", "3").lines

    assert [seen["offset"] for seen in found] == [10, 11, 12]
    assert "No record" in command("inspect", CHANGES.name, "--key", "nobody").out
    assert command("inspect", "fs.changes.lob").code == 66
    assert command("inspect", CHANGES.name, "--from", "never").code == 78


def test_a_reader_that_has_seen_enough_is_no_failure(kafka, environment, tmp_path):
    produce(kafka, CHANGES, *((b"photos\x00%d.jpg" % number, codec.encode(CHANGE)) for number in range(2000)))

    piped = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m headwater.cli inspect {CHANGES.name} | head -n 1"],
        env={**environment, "HEADWATER_STATE_FOLDER": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert len(piped.stdout.splitlines()) == 1
    assert piped.stderr == ""


def test_inspect_follows(kafka, environment, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "inspect", CHANGES.name, "--follow", "--json", "-n", "1"],
        env={**environment, "HEADWATER_STATE_FOLDER": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    produce(kafka, CHANGES, (CHANGE.key(), codec.encode(CHANGE)))

    out, _ = process.communicate(timeout=60)

    assert json.loads(out)["record"]["seq"] == 2


def test_lag_counts_records_and_seconds(kafka, command):
    an_hour_ago = int(time.time() - 3600) * 1000
    produce(kafka, SYNC_OBJECTS, *((b"k", b"v") for _ in range(5)), timestamp=an_hour_ago)
    consumer = kafka.consumer("verify-objects")
    consumer.commit(offsets=[TopicPartition(kafka.physical(SYNC_OBJECTS), 0, 2)], asynchronous=False)
    consumer.close()

    (group,) = command("lag", "--json").json

    assert group["group"] == "verify-objects"
    (partition,) = group["partitions"]
    assert (partition["committed"], partition["end"], partition["records"]) == (2, 5, 3)
    assert 3600 <= partition["seconds"] < 3700
    shown = command("lag", "--partitions").out
    assert "1 h 0 min" in shown
    assert "headwater run" in shown
    assert "sync.objects/0" in shown
    assert "No consumer group" in command("lag", "nobody").out


def test_among_hundreds_of_topics_and_groups_the_lists_answer_within_seconds(on_stack, command):
    many = [replace(SYNC_OBJECTS, name=f"many.{number}", partitions=1) for number in range(300)]
    topics.apply(on_stack, [*many, *catalogue(("lab",))])
    for number in range(30):
        consumer = on_stack.consumer(f"group-{number}")
        at = [TopicPartition(on_stack.physical(topic), 0, 0) for topic in many[number * 10 : number * 10 + 10]]
        consumer.commit(offsets=at, asynchronous=False)
        consumer.close()

    for arguments in (("topics", "--json"), ("lag", "--json"), ("dead", "list", "--json")):
        began = time.monotonic()
        ended = command(*arguments)
        assert ended.code == 0
        assert time.monotonic() - began < 15, f"headwater {' '.join(arguments)}: 2 s on two idle cores"
    assert len(command("lag", "--json").json) == 30


def test_dead_letters_are_listed_shown_and_redriven_once(kafka, command, eventually):
    stored = ObjectStored(hash=b"\xcd" * 32, generation=1, size=3, source="photos")
    buried = DeadLetter(
        topic=SYNC_OBJECTS.name, partition=4, offset=17, group="verify-objects", original_key=stored.key(),
        value=codec.encode(stored), headers=(Header(name="traceparent", value=b"00-1"),), error="Corrupt",
        message="it [differs]", stack="Traceback (most recent call last): …",
    )  # fmt: skip
    garbage = DeadLetter(
        topic=SYNC_OBJECTS.name, partition=5, offset=1, group="verify-objects", value=b"garbage", error="BadRecord",
        message="it does not decode", stack="",
    )  # fmt: skip
    produce(kafka, DEAD_LETTERS, (buried.key(), codec.encode(buried)), (garbage.key(), codec.encode(garbage)))

    listed = command("dead", "list", "--json").json
    assert [(one["letter"], one["error"]) for one in listed] == [
        ("sync.objects/4/17", "Corrupt"),
        ("sync.objects/5/1", "BadRecord"),
    ]
    assert "1 × Corrupt" in command("dead", "list").out
    assert [one["letter"] for one in command("dead", "--json", "--error", "BadRecord").json] == ["sync.objects/5/1"]

    shown = command("dead", "show", "sync.objects/4/17").out
    for said in ("it [differs]", "ObjectStored", "cd" * 32, "traceparent = 00-1", "Traceback"):
        assert said in shown
    assert command("dead", "show", "sync.objects/4/17", "--json").json["payload"]["size"] == 3
    assert "starts with byte 0x67" in command("dead", "show", "sync.objects/5/1").out
    assert command("dead", "show", "sync.objects/9/9").code == 66

    assert command("dead", "redrive", "--all", "--dry-run", "--json").json["redriven"] == [
        "sync.objects/4/17",
        "sync.objects/5/1",
    ]
    assert command("dead", "redrive", "sync.objects/9/9").code == 66
    assert "1 redriven." in command("dead", "redrive", "sync.objects/4/17").out
    assert "had been before" in command("dead", "redrive", "sync.objects/4/17").out
    (back,) = eventually(lambda: command("inspect", SYNC_OBJECTS.name, "--json").lines)
    assert back["record"]["hash"] == "cd" * 32
    assert back["headers"] == {"traceparent": "00-1", "headwater-redrives": "1"}
    assert [one["letter"] for one in command("dead", "list", "--json").json] == ["sync.objects/5/1"]


def letter(offset: int, **fields) -> DeadLetter:
    given = {"topic": SYNC_OBJECTS.name, "partition": 4, "group": "verify-objects", "original_key": b"\xcd" * 32,
             "value": b"v", "error": "Corrupt", "message": "no", "stack": "", **fields}  # fmt: skip
    return DeadLetter(offset=offset, **given)


def test_a_letter_that_comes_back_for_the_third_time_is_held_until_it_is_asked_for_again(kafka, command):
    for buried in (letter(1), letter(2, redrives=3), letter(3, redrives=7)):
        produce(kafka, DEAD_LETTERS, (buried.key(), codec.encode(buried)))

    named = command("dead", "redrive", "sync.objects/4/3", "sync.objects/4/1", "--json")
    assert named.code == 77
    assert "was redriven 7 times" in json.loads(named.err)["happened"]
    assert len(command("dead", "--json").json) == 3, "nothing was sent"

    everything = command("dead", "redrive", "--all", "--json").json
    assert (everything["redriven"], everything["held"]) == (
        ["sync.objects/4/1"],
        ["sync.objects/4/2", "sync.objects/4/3"],
    )
    shown = command("dead", "redrive", "--all", "--dry-run").out
    assert "0 would be redriven" in shown
    assert "2 were redriven 3 times and failed each time" in shown
    assert command("dead", "redrive", "--all", "--again", "--json").json["redriven"] == everything["held"]


def test_letters_are_narrowed_by_group_key_and_many_are_summed_up(kafka, command):
    buried = [
        letter(number, group="upload" if number % 3 else "verify", original_key=b"key-%d" % (number % 2))
        for number in range(30)
    ]
    produce(kafka, DEAD_LETTERS, *((one.key(), codec.encode(one)) for one in buried))

    def count(*filters: str) -> int:
        return len(command("dead", "redrive", "--all", "--dry-run", "--json", *filters).json["redriven"])

    assert count("--group", "verify") == 10
    assert count("--key", "ey-1") == 15
    assert count("--group", "verify", "--key", "key-1") == 5
    assert len(command("dead", "--json", "--group", "verify").json) == 10
    shown = command("dead", "redrive", "--all", "--dry-run").out
    assert "sync.objects/4/1" not in shown
    assert "30 would be redriven" in shown


def test_confluents_own_client_reads_a_real_topic_through_the_registry(kafka, environment, tmp_path):
    produce(kafka, CHANGES, (CHANGE.key(), codec.encode(CHANGE)))
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "registry", "--port", "0"],
        env={**environment, "HEADWATER_SITE": "lab", "HEADWATER_STATE_FOLDER": str(tmp_path)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    consumer = kafka.consumer("console")
    try:
        url = process.stdout.readline().split(" at ")[1].split(";")[0]
        consumer.assign([TopicPartition(kafka.physical(CHANGES), 0, 0)])
        message = consumer.poll(30)
        with SchemaRegistryClient({"url": url}) as client:
            plain = AvroDeserializer(client)(message.value(), SerializationContext(message.topic(), MessageField.VALUE))
            assert plain["path"] == CHANGE.path
            assert plain["hash"] == CHANGE.hash
            assert f"{kafka.physical(CHANGES)}-value" in client.get_subjects()
            latest = client.get_latest_version(f"{message.topic()}-value")
            assert latest.schema_id == int.from_bytes(message.value()[1:5])
    finally:
        consumer.close()
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
