"""Casts in the midst of which hosts die, stand still or spoil bytes: who is left has the file, and the log says why.

Cases 2, 3, 4 and 10 of docs/cases.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.disks import poison

from headwater.schemas.cast_records import CastEventKind

if TYPE_CHECKING:
    from conftest import Swarm

pytestmark = [pytest.mark.stack, pytest.mark.fault, pytest.mark.timeout(300)]

MIB = 1024 * 1024


def test_killed_stopped_and_poisoned_hosts_are_named_and_all_others_finish(swarm: Swarm) -> None:
    # given a cast to two racks of three, of which every host has a third
    swarm.peers(3, 3)
    file = swarm.file(32 * MIB + 77)
    swarm.publish(file)
    for name in ("h0-0", "h1-0"):
        swarm.wait_received(name, 0.3, file)

    # when one host is killed, one stands still, and one's disk flips a bit in each chunk that it has
    swarm.members.kill("h0-1")
    swarm.members.pause("h1-1")
    assert poison(swarm.members.into(swarm.hosts["h0-2"]))
    apart = {"h0-1", "h1-1", "h0-2"}
    others = set(swarm.hosts) - apart

    # then all others finish with the right bytes, and nobody else is blamed
    swarm.wait_installed(*others)
    assert swarm.right(file) >= others
    assert swarm.named(CastEventKind.blamed) == {"h0-2"}
    assert swarm.log.suspected >= {"h0-1", "h1-1"}
    # and what was spoiled was fetched elsewhere, once
    for name in others:
        assert swarm.story().installed[name].received_bytes < file.stat().st_size + 8 * MIB

    # and the one that stood still comes back as another incarnation, and finishes too
    before = {said.incarnation for said in swarm.story().progress if said.host == "h1-1"}
    swarm.members.resume("h1-1")
    swarm.wait_installed("h1-1")
    assert "h1-1" in swarm.right(file)
    assert swarm.story().installed["h1-1"].incarnation not in before
