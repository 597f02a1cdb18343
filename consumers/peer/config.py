"""Settings of a peer: who it is, where it keeps files, and how much of the host it may take."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """Section ``[peer]``. ``key`` comes from HEADWATER_PEER__KEY, or from a file that ``key_file`` names."""

    key: str | None = None
    """The secret that all peers of a fleet share: who lacks it can neither read nor feed."""
    host: str = field(default_factory=socket.gethostname)
    """This host's name in the casts: targets and reports use it."""
    rack: str = ""
    """The rack that this host stands in. Empty: ``topology_file`` says it; where that does not either, the host is one
    of those without a rack, which are taken for one rack together and reported."""
    topology_file: Path | None = None
    """A TOML or JSON file of all hosts with their racks: ``host = "rack"``."""
    into: Path | None = None
    """The folder in which files appear, for the daemon; nothing is written outside it."""
    listen: str = "0.0.0.0"
    port: int = 0
    """Where others connect. 0: any free port, which the member record says; set it where a firewall stands between."""
    advertised: str | None = None
    """The address under which others reach this host, without a port. None: the one that its own route to Kafka has."""
    uploads: int = 16
    """Chunks that an origin sends at once: each goes to a host that shares its downlink among about nine, so that fewer
    would leave the uplink idle. Other peers' are the policy's: rules/cast/choice.py."""
    fetches: int = 24
    """Chunks received at once, each by a thread with a buffer of 1 MiB: eight from rack-mates, up to sixteen imports.
    """
    connections: int = 256
    """Connections of others served at once: six for each of forty rack-mates. Beyond it the longest idle one goes."""
    handshakes: int = 64
    """Connections that have not shown the key yet. A storm waits in the kernel's queue of 1,024."""
    handshake_seconds: float = 2.0
    stall_seconds: float = 5.0
    """A transfer that moves nothing for so long is cut. The scheduler gives up sooner; this frees what it forgot."""
    idle_seconds: float = 30.0
    """An unused connection is closed after it."""
    bytes_per_second: int | None = None
    """The most that this host sends, and the most that it receives, for all casts together. None: no cap."""
    seed_seconds: float = 60.0
    """A file is served on for so long after every host of the rack has it; for all that come later there are others."""
    quota_bytes: int | None = None
    """The most that casts may take below ``into``. Where it is reached, the oldest that nobody uses or pins goes."""
    pinned: tuple[str, ...] = ()
    """Casts, by name, that never make room for others."""

    def __post_init__(self) -> None:
        if self.key is not None and len(self.key) < 16:
            raise ValueError("peer.key has less than 16 characters; `openssl rand -hex 32` makes a good one")
        if len(self.host.encode()) > 255 or not self.host:
            raise ValueError(f"peer.host {self.host!r} is empty or longer than 255 bytes")

    def __repr__(self) -> str:
        return f"PeerConfig(host={self.host!r}, into={self.into!s}, port={self.port}, key=***)"
