"""The broker is killed and comes back: meanwhile jobs are found in the catalog, and granted there."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS, JOBS_REQUESTED
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive


@pytest.fixture
def broker(stack, tmp_path):
    """A broker of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


@pytest.mark.fault
def test_jobs_are_granted_while_no_broker_answers_and_told_again_when_it_is_back(world, broker, eventually):
    kafka = Kafka(KafkaConfig(broker.addresses().kafka))
    topics.apply(kafka, (JOBS_REQUESTED, JOBS_EVENTS, JOBS_GRANTS))
    world.worker("w", 1)
    with world.scheduling(kafka=kafka) as dispatch:
        eventually(world.board, within_seconds=60)
        running = alive("kafka", broker.home)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        eventually(lambda: dispatch.state().phase == "degraded", within_seconds=60)
        assert kafka.config.bootstrap_servers in dispatch.state().reason
        for _ in range(3):
            [job] = world.post()
            eventually(lambda: world.granted() == {job}, within_seconds=30)  # noqa: B023
            world.end(job)

        broker.up()
        eventually(lambda: dispatch.state().phase == "running", within_seconds=60)
        [job] = world.post()
        eventually(lambda: world.granted() == {job}, within_seconds=60)
    assert {epoch for _, epoch in world.states().values()} == {1}
