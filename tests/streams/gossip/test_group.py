"""The gossip's group: it reads back, knows when it has caught up, and up to which moment it has read."""

from __future__ import annotations

import time

import numpy as np
import pytest

from headwater.connectors.kafka.partitioning import partition_of
from headwater.streams.gossip.group import BACK_SECONDS, AvailabilityGroup
from tests.any_cast import Peer

pytestmark = pytest.mark.stack
PEER = Peer("a", "r1", number=0)
BITS = np.ones(8, np.bool_)


@pytest.fixture
def group(log):
    group = AvailabilityGroup(log.kafka)
    yield group
    group.close()


def held(group, eventually) -> None:
    eventually(lambda: group.read(0.0) or group.held, within_seconds=30)


def test_what_was_said_in_the_last_seconds_is_read_again_whatever_was_committed(log, eventually):
    log.have(PEER, 7, BITS)
    log.flush()

    for _ in range(2):
        group = AvailabilityGroup(log.kafka)
        try:
            [message] = eventually(lambda: group.read(0.1), within_seconds=30)  # noqa: B023
            group.commit()
        finally:
            group.close()
        assert (message.partition(), message.key()) == (partition_of(b"r1", 64), b"7/0")


def test_it_has_caught_up_once_every_partition_was_read_to_its_end(log, group, eventually):
    log.have(PEER, 7, BITS)
    log.flush()
    assert group.settled(), "without partitions there is nothing to wait for"

    held(group, eventually)
    assert len(group.held) == 64
    assert not group.settled(), "nothing was fetched yet"

    eventually(lambda: (group.read(0.1), group.settled())[1], within_seconds=30)


def test_its_moment_is_now_unless_records_wait(log, group, eventually):
    log.have(PEER, 7, BITS)
    log.flush()
    held(group, eventually)
    now_us = time.time_ns() // 1_000
    assert group.reached_us(now_us) <= now_us - (BACK_SECONDS - 5) * 1_000_000, "nothing was fetched yet"

    eventually(lambda: (group.read(0.1), group.settled())[1], within_seconds=30)
    assert group.reached_us(now_us) == now_us
