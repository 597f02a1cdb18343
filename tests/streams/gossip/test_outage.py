"""The broker is killed in the midst of a cast, and comes back: the gossip waits, and calls nobody silent for it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict
from threading import Event, Thread

import numpy as np
import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.cast.chunks import Chunks
from headwater.schemas.cast_records import CastRack
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive
from headwater.streams.gossip.gossip import Gossip
from tests.any_cast import TOPICS, CastLog, Peer

CHUNKS = Chunks(8 << 20, 1 << 20)


@pytest.fixture
def broker(stack, tmp_path):
    """A broker of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_KAFKA"}
    own = Stack(tmp_path / "broker", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


def told_since(log: CastLog, at_us: int) -> list[CastRack]:
    return [rack for rack in log.racks() if rack.at_us > at_us]


@pytest.mark.fault
def test_an_outage_of_the_broker_makes_nobody_silent(broker, eventually):
    log = CastLog(Kafka(KafkaConfig(broker.addresses().kafka, prefix="own.")))
    topics.apply(log.kafka, TOPICS)
    peers = [Peer(name, "r1") for name in "abc"]
    log.join(*peers)
    log.announce("model", 7, CHUNKS)
    over = Event()

    def speak() -> None:
        while not over.wait(1.0):
            for peer in peers:
                log.have(peer, 7, np.zeros(8, np.bool_))

    gossip = Gossip(log.kafka)
    threads = [Thread(target=work, daemon=True) for work in (gossip.run, speak)]
    for thread in threads:
        thread.start()
    try:
        eventually(log.newest, within_seconds=60)
        running = alive("kafka", broker.home)
        assert running is not None
        killed_us = time.time_ns() // 1_000
        os.kill(running.pid, signal.SIGKILL)
        eventually(lambda: gossip.state().phase == "degraded", within_seconds=60)
        assert log.kafka.config.bootstrap_servers in gossip.state().reason

        broker.up()
        back_us = time.time_ns() // 1_000
        eventually(lambda: gossip.state().phase == "running", within_seconds=60)
        eventually(lambda: len(told_since(log, back_us)) > 2, within_seconds=60)
    finally:
        over.set()
        gossip.stop()
        for thread in threads:
            thread.join(30)
    assert {(rack.hosts, rack.silent) for rack in told_since(log, killed_us)} == {(3, ())}
    assert not any(thread.is_alive() for thread in threads)
