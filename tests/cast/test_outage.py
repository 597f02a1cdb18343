"""The broker dies in the midst of a cast (case 5): the data goes on, and what the log missed it hears afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.stack.local import Stack
from headwater.stack.processes import alive

if TYPE_CHECKING:
    from conftest import Swarm

pytestmark = [pytest.mark.stack, pytest.mark.fault, pytest.mark.timeout(300)]

MIB = 1024 * 1024


def test_a_cast_goes_on_without_the_broker_and_nothing_is_fetched_twice(
    swarm_on_own_broker: Swarm, broker: Stack, eventually: Callable[..., object]
) -> None:
    # given a cast in whose midst the broker is killed
    swarm = swarm_on_own_broker
    swarm.peers(2, 2)
    file = swarm.file(24 * MIB + 77)
    swarm.publish(file)
    for name in swarm.hosts:
        swarm.wait_received(name, 0.2, file)
    running = alive("kafka", broker.home)
    assert running is not None
    os.killpg(os.getpgid(running.pid), signal.SIGKILL)
    assert all(swarm.share(name, file) < 0.8 for name in swarm.hosts), "it was the midst"

    # when the peers are left alone, then every host has the file under its name, although no log can say so
    eventually(lambda: all(swarm.copy(name, file).exists() for name in swarm.hosts), within_seconds=120)
    assert swarm.right(file) == set(swarm.hosts)

    # and when the broker is back, it hears so, and that each byte came once
    broker.up()
    swarm.wait_installed()
    for said in swarm.story().installed.values():
        assert said.received_bytes < file.stat().st_size * 1.1
