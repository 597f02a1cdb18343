from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.public_address import literal_address, why_not_public

REFUSED = {
    "0.0.0.0": "this network",
    "10.1.2.3": "private",
    "100.64.0.1": "CGNAT",
    "100.100.100.200": "CGNAT",  # the metadata of a cloud
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "host service",
    "169.254.169.254": "link-local",
    "172.31.255.255": "private",
    "192.0.0.192": "protocols",
    "192.168.1.1": "private",
    "198.19.0.1": "benchmarks",
    "224.0.1.1": "multicast",
    "255.255.255.255": "reserved",
    "::": "not a public",
    "::1": "not a public",
    "::127.0.0.1": "not a public",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b:1::10.0.0.1": "not a public",
    "100::1": "not a public",
    "2001::1": "protocols",
    "2001:db8::1": "documentation",
    "2002:7f00:1::1": "tunnel",
    "3fff::1": "documentation",
    "5f00::1": "not a public",
    "fc00::1": "not a public",
    "fd00:ec2::254": "not a public",  # the metadata of a cloud
    "fe80::1": "not a public",
    "fe80::1%eth0": "one link",
    "2a00:1450::1%1": "one link",
    "fec0::1": "not a public",
    "ff0e::1": "not a public",
}


@pytest.mark.parametrize(("address", "what"), REFUSED.items())
def test_an_address_inside_is_refused_and_named(address: str, what: str) -> None:
    assert what in str(why_not_public(ipaddress.ip_address(address)))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"],
)
def test_a_public_address_is_not(address: str) -> None:
    assert why_not_public(ipaddress.ip_address(address)) is None


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_we_reach_the_standard_library_calls_global_and_not_multicast(address: IPv4Address | IPv6Address) -> None:
    if why_not_public(address) is None:
        mapped = getattr(address, "ipv4_mapped", None) or address
        assert mapped.is_global
        assert not mapped.is_multicast


def test_an_operator_allows_networks_and_nothing_beside_them() -> None:
    allowed = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert why_not_public(ipaddress.ip_address("127.0.0.1"), allowed) is None
    assert why_not_public(ipaddress.ip_address("::ffff:127.0.0.1"), allowed) is None
    assert why_not_public(ipaddress.ip_address("fd00::1"), allowed) is None
    assert why_not_public(ipaddress.ip_address("169.254.169.254"), allowed) is not None


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "0x7f.1", "1.2.3.4.5", "a.b.0x1", "127.0.0.01", "::g"]
)
def test_half_an_address_is_neither_an_address_nor_a_name(host: str) -> None:
    with pytest.raises(ValueError, match="neither a name nor an address"):
        literal_address(host)


def test_names_and_addresses_are_told_apart() -> None:
    assert literal_address("hooks.example.org") is None
    assert literal_address("1and1.example") is None
    assert literal_address("192.0.2.1") == IPv4Address("192.0.2.1")
    assert literal_address("::1") == IPv6Address("::1")
