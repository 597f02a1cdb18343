"""`headwater trace`: a file that went the whole way, and states that did not."""

import hashlib
import json

import pytest
from blake3 import blake3

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.rules.identity import change_key
from headwater.schemas import codec
from headwater.schemas.records import DeadLetter, RequestReason, SyncRequest
from headwater.schemas.topics import DEAD_LETTERS, SYNC_REQUESTS, catalogue

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, catalogue(("lab",)))
    return on_stack


@pytest.fixture
def catalog(kafka, catalog_dsn):  # noqa: ARG001
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        with catalog.transaction() as transaction:
            transaction.execute(
                "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions) "
                "VALUES ('photos', 'lab', '/p', 'main', 1, gen_random_uuid(), 'host-9', 6)"
            )
        yield catalog


def record(catalog, path: bytes, seq: int, content: bytes | None, state: str | None = None, kind="created") -> None:
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO file_versions (source, path, epoch, seq, kind, file_type, hash, size, mtime_ns, mode, uid, "
            "gid, guarantee) VALUES ('photos', %s, 1, %s, %s, 'regular', %s, 7, 0, 0, 0, 0, 'strong')",
            [path, seq, kind, content],
        )
        transaction.execute(
            "INSERT INTO paths (source, path, epoch, seq) VALUES ('photos', %s, 1, %s) "
            "ON CONFLICT (source, path) DO UPDATE SET seq = excluded.seq",
            [path, seq],
        )
        if state:
            transaction.execute(
                "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, "
                "claim_epoch) VALUES (%s, 1, %s, 7, 'photos', 'fs.changes.lab', 3, 1) ON CONFLICT DO NOTHING",
                [content, state],
            )


def produce(kafka, topic, record) -> None:
    producer = kafka.producer()
    producer.produce(kafka.physical(topic), key=record.key(), value=codec.encode(record))
    producer.flush(10)


def traced(command, identity: str, *more: str) -> list[dict]:
    ended = command("trace", identity, "--json", *more)
    assert ended.code == 0, ended.err
    return ended.json


def test_a_file_that_went_the_whole_way_is_followed_by_path_hash_and_clock(on_stack, command, tmp_path, kafka_prefix, eventually):  # fmt: skip  # noqa: ARG001, E501
    root, dataset = tmp_path / "photos", f"d{kafka_prefix.rstrip('.')}"
    root.mkdir()
    (root / "a.jpg").write_bytes(b"a" * 1000)
    (tmp_path / "headwater.toml").write_text(
        f'dataset = "{dataset}"\n[sources.photos]\nroot = "photos"\nsettle_seconds = 0.1\n'
    )
    try:
        assert command("up").code == 0
        eventually(
            lambda: command("progress", "--json").json["sources"][0]["verified"]["count"] == 1, within_seconds=60
        )
        assert command("dataset", "commit", "-m", "first", "--json").json["version"] == 1

        (state,) = traced(command, "photos/a.jpg")
    finally:
        assert command("down").code == 0

    whats = [event["what"] for event in state["events"]]
    assert [what for what in whats if what != "recorded"] == ["sent", "stored", "verified", "published"]
    assert "recorded" in whats
    assert state["hash"] == blake3(b"a" * 1000).hexdigest()
    assert state["versions"]["first"] == 1
    times = [event["at"] for event in state["events"]]
    assert times == sorted(times)
    clock = f"{state['epoch']}.{state['seq']}"
    assert traced(command, state["hash"][:8]) == traced(command, clock) == [state]
    shown = command("trace", "photos/a.jpg", COLUMNS="80").out
    assert "→ in version 1." in shown
    assert f"added in version 1 of {dataset}, held since" in shown


def test_dead_letters_requests_and_exceptions_of_a_path_are_told(kafka, catalog, command):
    content = b"\xab" * 32
    record(catalog, b"odd\xff.jpg", 5, content, "uploading")
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO exceptions (source, path, epoch, seq, reason, active) "
            "VALUES ('photos', %s, 1, 6, 'busy', true)",
            [b"odd\xff.jpg"],
        )
    request = SyncRequest(
        source="photos", path=b"odd\xff.jpg", display="odd", epoch=1, seq=5, reason=RequestReason.torn, detail="cut"
    )
    produce(kafka, SYNC_REQUESTS, request)
    produce(
        kafka, DEAD_LETTERS,
        DeadLetter(
            topic="fs.changes.lab", partition=2, offset=9, group="upload-files.lab",
            original_key=change_key("photos", b"odd\xff.jpg"), error="BadRecord", message="no", stack="",
        ),
    )  # fmt: skip

    (state,) = traced(command, "photos/odd\\xff.jpg")

    events = {event["what"]: event["detail"] for event in state["events"]}
    assert events["excepted"] == "busy"
    assert events["requested"] == "torn: cut"
    assert events["dead letter"] == "fs.changes.lab/2/9 by upload-files.lab, waits: BadRecord: no"
    assert events["claimed"] == "generation 1 for fs.changes.lab/3"
    assert "on its way to S3" in command("trace", "abababab").out


def test_earlier_states_are_shown_on_request(catalog, command):
    record(catalog, b"a.jpg", 1, b"\x01" * 32, "verified")
    record(catalog, b"a.jpg", 2, b"\x02" * 32, "stored", kind="modified")

    assert [state["seq"] for state in traced(command, "photos/a.jpg")] == [2]
    assert [(state["seq"], state["newest"]) for state in traced(command, "photos/a.jpg", "--all")] == [
        (2, True),
        (1, False),
    ]
    shown = command("trace", "photos/a.jpg").out
    assert "stored; waits for verification" in shown
    assert "--all" in shown


def test_a_prefix_of_several_contents_is_refused_with_them(catalog, command):
    record(catalog, b"a", 1, b"\xab" * 31 + b"\x01", "verified")
    record(catalog, b"b", 2, b"\xab" * 31 + b"\x02", "verified")

    ended = command("trace", "abababab", "--json")

    assert ended.code == 78
    assert "several contents begin with abababab" in json.loads(ended.err)["happened"]
    assert len(traced(command, "ab" * 31 + "01")) == 1


@pytest.mark.parametrize("identity", ["photos/nothing", "7.7", hashlib.sha256(b"x").hexdigest(), "nobody/a"])
def test_what_the_catalog_does_not_know_is_not_found(catalog, command, identity):  # noqa: ARG001
    assert command("trace", identity).code == 66
