"""The arithmetic of a fleet's links."""

from __future__ import annotations

import pytest
from fleet.layout import GOODPUT_SHARE, Layout


def test_twenty_four_hosts_at_eight_to_one_are_bound_by_their_racks() -> None:
    layout = Layout(racks=4, hosts=6, nic=40e6, oversubscription=8)
    assert layout.uplink == 30e6
    # 1,448 of 1,514 bytes are payload; 3.75 MB/s of frames are 3,586,526 bytes of it
    assert layout.floor_seconds(100_000_000) == pytest.approx(27.882, abs=0.001)


def test_hosts_are_bound_by_their_nics_where_racks_are_wide() -> None:
    layout = Layout(racks=2, hosts=8, nic=40e6, oversubscription=4)
    assert layout.floor_seconds(1_000_000) == pytest.approx(1_000_000 * 8 / 40e6 / GOODPUT_SHARE)


def test_every_host_has_a_name_an_address_and_a_number_of_its_own() -> None:
    layout = Layout(racks=4, hosts=6, nic=40e6, oversubscription=8)
    hosts = [layout.origin(), *layout.members()]
    assert len(hosts) == 25
    for of in ("name", "address", "number"):
        assert len({getattr(host, of) for host in hosts}) == 25
    assert {host.rack for host in hosts} == {"", "r0", "r1", "r2", "r3"}
