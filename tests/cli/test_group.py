"""`headwater group reset`: refused while anybody lives, previewed, done, and recorded."""

import json
import multiprocessing
import os
import signal
import time

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import groups, topics
from headwater.connectors.kafka.browse import Start
from headwater.rules.errors import Refused
from headwater.schemas.topics import SYNC_OBJECTS, catalogue

pytestmark = pytest.mark.stack
GROUP = "verify-objects"


@pytest.fixture
def kafka(on_stack, catalog_dsn):
    """Ten records in partition 0, the last five of them of now; the group has read seven."""
    topics.apply(on_stack, catalogue(("lab",)))
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
    producer = on_stack.producer()
    for number in range(10):
        at = int((time.time() - (3600 if number < 5 else 0)) * 1000)
        producer.produce(on_stack.physical(SYNC_OBJECTS), key=b"k", value=b"v", partition=0, timestamp=at)
    producer.flush(10)
    consumer = on_stack.consumer(GROUP)
    consumer.commit(offsets=[TopicPartition(on_stack.physical(SYNC_OBJECTS), 0, 7)], asynchronous=False)
    consumer.close()
    return on_stack


def committed(kafka) -> dict[int, int]:
    group = kafka.group(GROUP)
    known = kafka.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {at.partition: at.offset for at in known.topic_partitions}


def reset(command, to: str, *more: str):
    return command("group", "reset", GROUP, "--to", to, "--reason", "bad disk", *more)


def test_a_group_with_a_living_member_is_refused_and_the_member_is_named(kafka, command, eventually):
    consumer = kafka.consumer(GROUP, client_id="verifier-7")
    consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)
    try:
        ended = reset(command, "beginning", "--json")
        preview = reset(command, "beginning", "--dry-run", "--json")
    finally:
        consumer.close()

    for refused in (ended, preview):
        assert refused.code == 77
        assert "1 living member: verifier-7 on 127.0.0.1 (12 partitions)" in json.loads(refused.err)["happened"]
    assert committed(kafka) == {0: 7}
    assert command("group", "history", "--json").json == []


def test_a_member_that_joins_between_plan_and_move_is_noticed_by_kafka(kafka, eventually):
    moves = groups.plan(kafka, GROUP, Start("beginning"))
    consumer = kafka.consumer(GROUP)
    consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)

    with pytest.raises(Refused, match="a member joined it just now"):
        groups.move(kafka, GROUP, moves)

    consumer.close()
    assert committed(kafka) == {0: 7}


def test_a_dry_run_shows_from_and_to_and_changes_nothing(kafka, command):
    ended = reset(command, "beginning", "--dry-run")

    assert "sync.objects/0" in ended.out
    assert "reads 7 again" in ended.out
    assert committed(kafka) == {0: 7}
    assert command("group", "history", "--json").json == []


@pytest.mark.parametrize(
    ("to", "expected", "skipped"),
    [("beginning", 0, -7), ("end", 10, 3), ("4", 4, -3), ("99", 10, 3), ("-30m", 5, -2)],
)
def test_an_empty_group_is_moved_and_the_reason_recorded(kafka, command, to, expected, skipped):
    ended = reset(command, to, "--json")

    assert ended.code == 0, ended.err
    assert committed(kafka)[0] == expected
    assert len(committed(kafka)) == SYNC_OBJECTS.partitions, "also where it had not committed yet"
    (first, *_) = ended.json["partitions"]
    assert (first["before"], first["after"], first["skipped"]) == (7, expected, skipped)
    (action,) = command("group", "history", "--json").json
    assert (action["action"], action["subject"], action["reason"], action["done"]) == (
        "group reset", GROUP, "bad disk", True,
    )  # fmt: skip
    assert action["details"][0]["after"] == expected
    assert "@" in action["operator"]
    assert "bad disk" in command("group", "history").out


def test_single_partitions_are_moved_alone(kafka, command):
    assert reset(command, "2", "--partition", "sync.objects/0").code == 0

    assert committed(kafka) == {0: 2}
    assert reset(command, "2", "--partition", "sync.verified/0").code == 66
    assert reset(command, "2", "--partition", "sync.objects").code == 78
    assert reset(command, "never").code == 78


def test_a_group_that_never_was_is_not_found_and_a_reason_is_asked_for(kafka, command):  # noqa: ARG001
    assert command("group", "reset", "nobody", "--to", "end", "--reason", "x").code == 66
    assert command("group", "reset", GROUP, "--to", "end").code == 2
    assert command("group", "reset", GROUP, "--to", "end", "--reason", " ").code == 2


@pytest.mark.fault
@pytest.mark.parametrize(("step", "moved"), [("begin", False), ("move", True)])
def test_a_reset_that_is_killed_leaves_a_record_that_says_it_may_have_happened(
    kafka, command, environment, step, moved
):
    child = multiprocessing.get_context("spawn").Process(target=die_after, args=(step, dict(environment)))
    child.start()
    child.join(60)

    assert child.exitcode == -signal.SIGKILL
    assert committed(kafka)[0] == (0 if moved else 7)
    (action,) = command("group", "history", "--json").json
    assert not action["done"]
    assert reset(command, "beginning").code == 0
    assert committed(kafka)[0] == 0


def die_after(step: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    from headwater.cli.app import execute
    from headwater.connectors.catalog import actions

    def deadly(real):
        def wrapped(*arguments):
            outcome = real(*arguments)
            if step == "begin":
                arguments[0].commit()
            os.kill(os.getpid(), signal.SIGKILL)
            return outcome

        return wrapped

    module = actions if step == "begin" else groups
    setattr(module, step, deadly(getattr(module, step)))
    execute(["group", "reset", GROUP, "--to", "beginning", "--reason", "x"])
