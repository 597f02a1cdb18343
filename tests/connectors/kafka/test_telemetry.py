"""Telemetry goes beside the work and never in its way, with a log or without one."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from headwater.connectors.kafka import offsets, telemetry, topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.reading import messages
from headwater.connectors.kafka.telemetry import Telemetry
from headwater.observe import metrics
from headwater.observe.http import Health
from headwater.observe.telemetry import Speaker
from headwater.schemas import records
from headwater.schemas.codec import decode
from headwater.schemas.topics import FLEET_TELEMETRY
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive

WELL = Health(True, "running")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "EVERY_SECONDS", 0.1)


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    found = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(found, (FLEET_TELEMETRY,))
    return found


@pytest.fixture
def broker(stack: Addresses, tmp_path: Path) -> Iterator[Stack]:
    """A broker of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


def words(kafka: Kafka) -> list[Any]:
    places = offsets.partitions(kafka, FLEET_TELEMETRY.name)
    return [decode(message.value()) for message in messages(kafka, offsets.beginnings(kafka, places))]


def test_a_process_says_what_it_counted_and_goodbye(kafka: Kafka, eventually: Callable[..., Any]) -> None:
    with Telemetry(kafka, Speaker("till", records.Stage.verified), lambda: WELL):
        before = eventually(lambda: words(kafka))[0].records
        metrics.GROUP_RECORDS.labels("till").inc(17)
        eventually(lambda: words(kafka)[-1].records == before + 17)

    said = words(kafka)
    assert [word.number for word in said] == list(range(len(said)))
    assert {word.incarnation for word in said} == {said[0].incarnation}
    assert [word.state for word in said] == ["running"] * (len(said) - 1) + ["stopped"]
    assert (said[0].group, said[0].stage, said[0].host) == ("till", records.Stage.verified, socket.gethostname())


def test_who_dies_of_an_error_says_no_goodbye(kafka: Kafka, eventually: Callable[..., Any]) -> None:
    speaking = Telemetry(kafka, Speaker("till", records.Stage.other), lambda: Health(False, "degraded", "S3 is away"))

    def work() -> None:
        with speaking:
            eventually(lambda: words(kafka))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    assert {(word.state, word.reason) for word in words(kafka)} == {("degraded", "S3 is away")}


def test_the_log_gives_a_word_its_time_whatever_the_clock_of_its_host_says(
    kafka: Kafka, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time_ns", lambda: int((now - 86_400) * 1e9))
    with Telemetry(kafka, Speaker("till", records.Stage.other), lambda: WELL):
        eventually(lambda: words(kafka))

    places = offsets.partitions(kafka, FLEET_TELEMETRY.name)
    [first, *_] = messages(kafka, offsets.beginnings(kafka, places))
    assert abs(first.timestamp()[1] / 1_000 - now) < 60


@pytest.mark.parametrize("trouble", ["nobody answers", "the topic is missing", "it cannot be said"])
def test_without_a_log_the_work_goes_on_and_one_line_says_so(
    trouble: str, stack: Addresses, kafka_prefix: str, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setattr(telemetry, "_SETTINGS", telemetry._SETTINGS | {"message_timeout_ms": 300})
        kafka = Kafka(KafkaConfig(stack.kafka if trouble == "the topic is missing" else away, prefix=kafka_prefix))
        asked = Event()

        def health() -> Health:
            asked.set()
            return Health(True, "running", "") if trouble != "it cannot be said" else Health(True, None)  # type: ignore[arg-type]

        with capture_logs() as logged:
            began = time.monotonic()
            with Telemetry(kafka, Speaker("till", records.Stage.other), health):
                entered = time.monotonic() - began
                eventually(lambda: [line for line in logged if line["event"] == "telemetry.dropped"], 30)
                asked.clear()
                eventually(asked.is_set)  # it goes on trying
                leaving = time.monotonic()
            left = time.monotonic() - leaving

    assert [line["event"] for line in logged].count("telemetry.dropped") == 1
    assert entered < 1
    assert left < 5, "a process ends in its own time"


@pytest.mark.fault
def test_a_broker_that_was_killed_hears_the_next_word(broker: Stack, eventually: Callable[..., Any]) -> None:
    kafka = Kafka(KafkaConfig(broker.addresses().kafka, prefix="own."))
    topics.apply(kafka, (FLEET_TELEMETRY,))
    with Telemetry(kafka, Speaker("till", records.Stage.other), lambda: WELL):
        before = len(eventually(lambda: words(kafka), within_seconds=30))
        running = alive("kafka", broker.home)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        broker.up()

        eventually(lambda: len(words(kafka)) > before + 3, within_seconds=60)
    numbers = [word.number for word in words(kafka)]
    assert numbers == sorted(set(numbers))
