"""The numbers beside each case are worked out by hand from the file, the links and the disks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.bounds import Fleet, binding, bounds, fluid_floor, goodput_share, slow_floor
from headwater.rules.errors import BadSettings

GB = 10**9
FLEET = Fleet(
    hosts=1000, racks=25, host_bytes_per_second=3.125 * GB, origin_bytes_per_second=3.125 * GB, oversubscription=8
)


def seconds(size, fleet, **more):
    return {bound.resource: round(bound.seconds, 3) for bound in bounds(size, fleet, **more)}


def test_100_gb_at_25_gbps_take_32_seconds_at_least():
    assert seconds(100 * GB, FLEET) == {
        "origin's uplink": 32.0,
        "every host's downlink": 32.0,
        "all uplinks together": 31.968,  # 1000 receive what 1001 send
        "rack's uplink": 6.4,  # 40 links of 3.125 GB/s, an eighth of them: 15.625 GB/s
    }
    assert [bound.resource for bound in binding(bounds(100 * GB, FLEET))] == [
        "origin's uplink",
        "every host's downlink",
    ]


def test_a_rack_limits_when_chunks_enter_it_six_times():
    [bound] = binding(bounds(100 * GB, FLEET, copies_per_rack=6))

    assert (bound.resource, bound.seconds) == ("rack's uplink", pytest.approx(38.4))


def test_disks_without_page_cache_limit_a_terabyte():
    fleet = replace(FLEET, disk_read_bytes_per_second=3 * GB, disk_write_bytes_per_second=3 * GB, page_cache=False)
    found = seconds(1000 * GB, fleet)

    assert found["disk, written"] == 333.333
    assert found["disk, read to send again"] == 333.0  # a thousand copies off 1,001 disks
    assert [bound.resource for bound in binding(bounds(1000 * GB, fleet))] == ["disk, written"]
    assert "disk, read to send again" not in seconds(1000 * GB, replace(fleet, page_cache=True))


def test_one_core_that_hashes_limits_the_origin():
    [bound] = binding(bounds(100 * GB, replace(FLEET, hash_bytes_per_second=1.4 * GB)))

    assert (bound.resource, round(bound.seconds)) == ("hashing at the origin", 71)


def test_slow_hosts_have_a_floor_of_their_own():
    fleet = replace(FLEET, slow_hosts=20, slow_share=0.25)

    assert slow_floor(100 * GB, fleet) == 128
    assert binding(bounds(100 * GB, fleet))[0].seconds == 32


@pytest.mark.parametrize(
    ("mtu", "share"), [(1500, 1448 / 1538), (9000, 8948 / 9038)]
)  # TCP with time stamps over IPv4 and Ethernet: payload and bytes on the wire, packet by packet
def test_headers_take_their_share_of_a_link(mtu, share):
    assert goodput_share(mtu) == share


def test_mixed_links_are_bound_by_the_origin_the_slowest_and_all_together():
    assert fluid_floor(12, origin_up=2, ups=[9, 9], downs=[9, 9]) == 6
    assert fluid_floor(12, origin_up=9, ups=[9, 9], downs=[9, 1]) == 12
    assert fluid_floor(12, origin_up=3, ups=[1, 0], downs=[9, 9]) == 6  # 24 units over uplinks of 4


RATES = st.floats(1, 1e12)


@given(size=st.integers(1, 10**15), origin=RATES, links=st.lists(st.tuples(RATES, RATES), min_size=1, max_size=20))
def test_no_link_carries_more_by_the_floor_than_it_can(size, origin, links):
    ups, downs = zip(*links, strict=True)
    floor = fluid_floor(size, origin, ups, downs)

    assert floor >= size / origin
    assert all(floor >= size / down for down in downs)
    assert floor * (origin + sum(ups)) >= len(links) * size * (1 - 1e-9)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"racks": 1001}, "do not fill"),
        ({"racks": 0}, "do not fill"),
        ({"slow_hosts": 1000}, "are slow"),
        ({"slow_hosts": 1, "slow_share": 0}, "are slow"),
        ({"oversubscription": 0.5}, "oversubscription"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(wrong, said):
    with pytest.raises(BadSettings, match=said):
        replace(FLEET, **wrong)
