"""Which addresses a URL that a stranger gave may lead to: public unicast ones, and whatever the operator allows.

After the IANA special-purpose registries (RFC 6890): IPv4, https://www.iana.org/assignments/iana-ipv4-special-registry,
and IPv6, https://www.iana.org/assignments/iana-ipv6-special-registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NOT_PUBLIC = {
    ip_network(network): what
    for network, what in {
        "0.0.0.0/8": "this network",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared (CGNAT), where some clouds keep their metadata",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "the host service of a cloud",
        "169.254.0.0/16": "link-local, where clouds keep their metadata",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "of protocols",
        "192.0.2.0/24": "for documentation",
        "192.88.99.0/24": "a relay of 6to4",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "2001::/23": "of protocols (Teredo, ORCHID)",
        "2001:db8::/32": "for documentation",
        "2002::/16": "a tunnel (6to4)",
        "3fff::/20": "for documentation",
    }.items()
}
_UNICAST = IPv6Network("2000::/3")
"""All IPv6 addresses that were ever given out. Outside are loopback, link-local, private, multicast, and tunnels."""
_EMBEDDING = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Whose last 32 bits are the IPv4 address that the packet reaches: mapped ones, and NAT64 (RFC 6052)."""


def embedded(address: Address) -> Address:
    """The IPv4 address that packets to this IPv6 one reach, or the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def why_not_public(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """What kind of address it is, in words that follow "is"; None for one that may be reached.

    ``allowed`` networks are reached whatever they are; an embedded IPv4 address is judged, not what embeds it.
    """
    address = embedded(address)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "of one link"
    if any(address in network for network in allowed):
        return None
    for network, what in _NOT_PUBLIC.items():
        if address in network:
            return what
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return "not a public unicast address"
    return None


def literal_address(host: str) -> Address | None:
    """The address that a URL's host, without brackets, says by itself; None for a name.

    Raises ValueError for what looks like neither: old programs read 127.1, 0x7f000001 and 2130706433 as addresses
    (https://url.spec.whatwg.org/#ends-in-a-number-checker), so that none of these is a name.
    """
    try:
        return ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2].lower()
        if ":" in host or last.isdigit() or last.startswith("0x"):
            raise ValueError(f"{host} is neither a name nor an address that is written in full") from None
    return None
