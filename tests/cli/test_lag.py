"""`headwater lag`: verdicts and trend of groups that are made to stop, stall, turn back and catch up."""

import json
import subprocess
import sys
import time

import pytest
from confluent_kafka import TopicPartition

from headwater.connectors.kafka import topics
from headwater.schemas.topics import SYNC_OBJECTS, catalogue

pytestmark = pytest.mark.stack


@pytest.fixture
def kafka(on_stack):
    topics.apply(on_stack, catalogue(("lab",)))
    return on_stack


def produce(kafka, count: int, *, seconds_ago: float, partition: int = 0) -> None:
    producer = kafka.producer()
    at = int((time.time() - seconds_ago) * 1000)
    for _ in range(count):
        producer.produce(kafka.physical(SYNC_OBJECTS), key=b"k", value=b"v", partition=partition, timestamp=at)
    producer.flush(10)


def commit(kafka, offset: int, consumer=None) -> None:
    committer = consumer or kafka.consumer("verify-objects")
    at = TopicPartition(kafka.physical(SYNC_OBJECTS), 0, offset)
    committer.commit(offsets=[at], asynchronous=False)
    if consumer is None:
        committer.close()


@pytest.fixture
def member(kafka, eventually):
    """A live member of the group, which reads nothing more once it holds its partitions."""
    consumer = kafka.consumer("verify-objects")
    consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)
    yield consumer
    consumer.close()


def judged(command) -> dict[str, object]:
    (group,) = command("lag", "--json").json
    return {"verdict": group["verdict"], **{at["partition"]: at for at in group["partitions"] if at["records"]}}


def test_a_group_that_nobody_runs_is_stopped_and_one_whose_member_does_nothing_is_stalled(kafka, command, eventually):
    produce(kafka, 5, seconds_ago=3600)
    commit(kafka, 2)

    assert judged(command)["verdict"] == "stopped"
    assert judged(command)[0]["sentence"] == "nobody reads it: 3 records wait, the oldest for 1 h 0 min"

    consumer = kafka.consumer("verify-objects")
    consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)
    now = judged(command)
    consumer.close()
    assert now["verdict"] == "ok", "it committed a moment ago"
    assert "at work since" in now[0]["sentence"]


def test_a_member_that_never_committed_an_old_record_is_stalled(kafka, command, member):  # noqa: ARG001
    produce(kafka, 1, seconds_ago=120)

    assert judged(command)["verdict"] == "stalled"
    shown = command("lag", COLUMNS="80").out
    assert "verify-objects stalled in sync.objects/0: nothing committed for 2 min" in " ".join(shown.split())


def test_a_group_that_was_set_back_is_rewound(kafka, command, member):
    produce(kafka, 5, seconds_ago=30)
    commit(kafka, 5, member)
    commit(kafka, 1, member)

    now = judged(command)

    assert now["verdict"] == "rewound"
    assert now[0]["sentence"] == "was set back, reads again from 1"


def test_a_group_that_was_stopped_for_ten_minutes_is_seen_to_catch_up_live(kafka, environment, tmp_path, eventually):
    produce(kafka, 1000, seconds_ago=600)
    commit(kafka, 0)
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "lag", "--watch", "--json", "--every", "0.2"],
        env={**environment, "HEADWATER_STATE_FOLDER": str(tmp_path), "HEADWATER_SITE": "lab"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        (stopped,) = json.loads(process.stdout.readline())
        assert (stopped["verdict"], stopped["records"]) == ("stopped", 1000)
        assert 600 <= stopped["seconds"] < 660
        assert stopped["drain_seconds"] is None
        consumer = kafka.consumer("verify-objects")
        consumer.subscribe([kafka.physical(SYNC_OBJECTS)])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), within_seconds=30)
        commit(kafka, 400, consumer)

        def turned() -> dict[str, object]:
            (group,) = json.loads(process.stdout.readline())
            return group if group["records"] == 600 and group["verdict"] == "ok" else {}

        now = eventually(turned, within_seconds=30)
        consumer.close()
        assert now["growth_per_second"] < 0
        assert now["drain_seconds"] == pytest.approx(600 / -now["growth_per_second"])
    finally:
        process.kill()
        process.communicate()
