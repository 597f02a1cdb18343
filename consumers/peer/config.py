"""Settings of a peer: who it is, where it keeps files, and how much of the host it may take."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """Section ``[peer]``. ``key`` comes from HEADWATER_PEER__KEY, or from a file that ``key_file`` names."""

    key: str | None = None
    """The secret that all peers of a fleet share: who lacks it can neither read nor feed."""
    host: str = field(default_factory=socket.gethostname)
    """This host's name in the casts: targets and reports use it."""
    into: Path | None = None
    """The folder in which files appear, for the daemon; nothing is written outside it."""
    listen: str = "0.0.0.0"
    port: int = 0
    """Where others connect. 0: any free port, which the member record says; set it where a firewall stands between."""
    advertised: str | None = None
    """The address under which others reach this host, without a port. None: the one that its own route to Kafka has."""
    uploads: int = 16
    """Chunks sent at once. Who asks beyond it is told to try another at once: nobody queues."""
    uploads_per_chunk: int = 2
    """Of these, of one chunk: forty rack-mates that want the newest one spread it among themselves."""
    fetches: int = 8
    """Chunks received at once: each has a thread and a buffer of 1 MiB."""
    connections: int = 256
    """Connections of others served at once: six for each of forty rack-mates. Beyond it the longest idle one goes."""
    handshakes: int = 64
    """Connections that have not shown the key yet. A storm waits in the kernel's queue of 1,024."""
    handshake_seconds: float = 2.0
    stall_seconds: float = 10.0
    """A transfer that moves nothing for so long is cut. The scheduler gives up sooner; this frees what it forgot."""
    idle_seconds: float = 30.0
    """An unused connection is closed after it."""
    bytes_per_second: int | None = None
    """The most that this host sends, and the most that it receives, for all casts together. None: no cap."""
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
