"""What ``headwater doctor`` looks at where this host is a peer of casts: its key, its folder, its port, its link.

As in ``doctor``, each check is a pure function from what was measured to a ``Check``; ``examine_peer`` measures.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
from ipaddress import ip_address
from pathlib import Path

import psutil

from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.racks import rack_of
from headwater.rules.cast.bounds import goodput_share
from headwater.rules.errors import BadSettings
from headwater.stack.doctor import GIB, Check, Holder
from headwater.stack.server import port_is_free

BACKLOG = 1024
"""Connections that a peer lets wait in the kernel when a whole fleet dials at once."""
OWN_DESCRIPTORS = 256
"""Beside the connections it serves: links to rack-mates, its own requests, files, Kafka."""


def check_key(known: bool) -> Check:
    if known:
        return Check("peer key", "ok", "known")
    fix = "Make one for the whole fleet (openssl rand -hex 32) and name its file with peer.key_file on every host."
    return Check("peer key", "fail", "none, so it can neither serve nor be served", fix)


def check_folder(into: Path, *, is_folder: bool, writable: bool, free_bytes: int, quota_bytes: int | None) -> Check:
    found = f"{free_bytes / GIB:.1f} GiB free at {into}"
    if not is_folder or not writable:
        what = "is no folder" if not is_folder else "may not be written by this user"
        return Check("peer folder", "fail", f"{into} {what}", "Set peer.into to a folder that the peer's user owns.")
    if quota_bytes is not None and free_bytes < quota_bytes:
        fix = f"Free space, or lower peer.quota_bytes ({quota_bytes / GIB:.1f} GiB): a cast that does not fit fails."
        return Check("peer folder", "warn", found, fix)
    return Check("peer folder", "ok", found)


def check_rack(host: str, rack: str, wrong: BadSettings | None = None) -> Check:
    if wrong is not None:
        return Check("peer rack", "fail", wrong.happened, wrong.advice)
    if rack:
        return Check("peer rack", "ok", f"{host} is in {rack}")
    fix = "Name it with peer.rack or in peer.topology_file: all hosts without one are taken for one rack."
    return Check("peer rack", "warn", f"{host} has no rack", fix)


def check_listener(port: int, holder: Holder) -> Check:
    if port == 0:
        return Check("peer port", "ok", "any free one; behind a firewall set peer.port")
    if holder == "other":
        return Check("peer port", "fail", f"{port} is taken by another program", "Set peer.port to a free port.")
    return Check("peer port", "ok", f"{port} is {'free' if holder == 'free' else 'ours'}")


def check_link(interface: str, mtu: int, megabits: int) -> Check:
    """``megabits``: what the interface says of its speed, 0 where it says nothing."""
    speed = f"{megabits / 1000:g} Gbit/s, " if megabits else ""
    return Check("peer link", "ok", f"{interface}: {speed}MTU {mtu}: {goodput_share(mtu):.1%} of it is payload at best")


def check_backlog(somaxconn: int) -> Check:
    found = f"{somaxconn} connections may wait"
    if somaxconn >= BACKLOG:
        return Check("peer backlog", "ok", found)
    fix = f"sudo sysctl -w net.core.somaxconn={BACKLOG}: beyond it, peers that dial at once are turned away."
    return Check("peer backlog", "warn", found, fix)


def check_descriptors(limit: int, connections: int) -> Check:
    found = f"{limit:,} open files allowed"
    if limit >= connections + OWN_DESCRIPTORS:
        return Check("peer descriptors", "ok", found)
    fix = f"Allow {connections + OWN_DESCRIPTORS:,} (LimitNOFILE in the unit, ulimit -n), or lower peer.connections."
    return Check("peer descriptors", "warn", found, fix)


def examine_peer(config: PeerConfig, kafka: str | None, *, running: bool) -> list[Check]:
    """Measures this host. ``kafka``: the brokers' addresses, for the link that leads to them; ``running``: our peer is.

    Nothing where no folder for casts is set: then this host is no peer.
    """
    if config.into is None:
        return []
    holder: Holder = "ours" if running else "free" if port_is_free(config.port, config.listen) else "other"
    somaxconn = Path("/proc/sys/net/core/somaxconn")
    return [
        check_key(config.key is not None),
        _folder(config.into, config.quota_bytes),
        _rack(config),
        check_listener(config.port, holder),
        *_link(config.advertised or _own_address(kafka)),
        *([check_backlog(int(somaxconn.read_text()))] if somaxconn.exists() else []),
        check_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0], config.connections),
    ]


def _rack(config: PeerConfig) -> Check:
    try:
        return check_rack(config.host, rack_of(config))
    except BadSettings as wrong:
        return check_rack(config.host, "", wrong)


def _folder(into: Path, quota_bytes: int | None) -> Check:
    """The folder, or the first above it that exists: the peer makes what is missing."""
    there = next(path for path in (into, *into.parents) if path.exists())
    return check_folder(
        into,
        is_folder=stat.S_ISDIR(there.stat().st_mode),
        writable=os.access(there, os.W_OK | os.X_OK),
        free_bytes=shutil.disk_usage(there).free,
        quota_bytes=quota_bytes,
    )


def _own_address(kafka: str | None) -> str | None:
    """This host's address on its way to the brokers; nothing is sent."""
    if kafka is None:
        return None
    host, _, port = kafka.split(",")[0].rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as asked:
            asked.connect(place)
            return str(asked.getsockname()[0])
    except OSError:
        return None


def _link(address: str | None) -> list[Check]:
    """The interface that has the address; nothing where none has it, such as behind a translation of addresses."""
    links = psutil.net_if_stats()
    for name, addresses in psutil.net_if_addrs().items():
        if name in links and any(_same(address, one.address) for one in addresses):
            return [check_link(name, links[name].mtu, links[name].speed)]
    return []


def _same(address: str | None, other: str) -> bool:
    try:
        return address is not None and ip_address(address) == ip_address(other.partition("%")[0])
    except ValueError:  # a name, or a hardware address
        return False
