"""Many hosts at once (case 8): forty processes ask for a file within milliseconds."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Swarm

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

MIB = 1024 * 1024
RACKS = (10, 10, 10, 10)


def test_forty_hosts_that_join_at_once_all_finish_and_the_origin_feeds_racks_not_hosts(swarm: Swarm) -> None:
    # given a cast that nobody has asked for yet
    swarm.place(*RACKS)
    file = swarm.file(12 * MIB + 77)
    publisher = swarm.publish(file, "weights", "--targets", ",".join(swarm.hosts))

    # when forty processes join it at the same moment
    swarm.members.storm(list(swarm.hosts.values()), "weights")
    unreachable: list[str] = []
    known: set[str] = set()
    sent = 0

    def all_have_it() -> bool:
        nonlocal sent
        if swarm.members.lives(publisher):
            sent = swarm.sent(publisher)
        for host in swarm.log.joined() - known:
            known.add(host)
            unreachable.extend([] if connects(swarm.log.addresses[host]) else [host])
        return set(swarm.hosts) <= set(swarm.story().installed)

    swarm.wait(all_have_it, "file on forty hosts", "storm")

    # then each of them was reachable when it was found on the log, and every byte is right
    assert unreachable == []
    assert swarm.right(file) == set(swarm.hosts)
    # and the origin fed the racks' tree, not each rack, by the kernel's own count of what it sent from the file: few
    # chunks were handed out before the last racks came, which may ask it for them
    assert 0 < sent <= 2 * file.stat().st_size
    assert swarm.members.wait("storm", 120) == 0, "each ended well"


def connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except OSError:
        return False
