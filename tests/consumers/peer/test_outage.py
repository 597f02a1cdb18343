"""The broker is killed in the midst of a cast: the bytes go on, and what is to be said is said when it is back."""

import os
import signal
from contextlib import ExitStack
from dataclasses import asdict

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.schemas.cast_records import CastState
from headwater.schemas.topics import CAST_PROGRESS, catalogue
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive

MIB = 1024 * 1024


@pytest.fixture
def broker(stack, tmp_path):
    """A broker of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


@pytest.fixture
def kafka(broker):
    made = Kafka(KafkaConfig(broker.addresses().kafka, prefix="own."))
    topics.apply(made, [topic for topic in catalogue(("lab",)) if topic.name.startswith("cast.")])
    return made


def had(peer):
    return peer.casts()[0].had if peer.casts() else 0


@pytest.mark.fault
def test_bytes_go_on_without_the_broker_and_it_hears_of_them_later(
    broker, told, origin_of, peer_of, records, eventually
):
    cast = told(16 * MIB)
    with ExitStack() as running:
        peers = [running.enter_context(peer_of(host, bytes_per_second=2 * MIB)) for host in ("h1", "h2")]
        running.enter_context(origin_of(cast))
        cast.all()
        eventually(lambda: all(had(peer) for peer in peers), within_seconds=60)

        os.kill(alive("kafka", broker.home).pid, signal.SIGKILL)
        assert all(had(peer) < cast.chunks.count for peer in peers)
        eventually(lambda: all(peer.casts()[0].phase == "installed" for peer in peers), within_seconds=60)

        assert alive("kafka", broker.home) is None
        for peer in peers:
            assert peer.casts()[0].path.read_bytes() == cast.content
            assert peer.casts()[0].received_bytes < 1.5 * len(cast.content)
        broker.up()
        eventually(
            lambda: {one.host for one in records(CAST_PROGRESS) if one.state is CastState.installed} == {"h1", "h2"},
            within_seconds=60,
        )
