"""Settings of a member of a consumer group."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_state_path


@dataclass(frozen=True, slots=True)
class MemberConfig:
    slot_folder: Path = field(default_factory=lambda: user_state_path("headwater") / "slots")
    """Lock files of the transactional ids; shared by all members on this host, on a local disk."""
    host: str = field(default_factory=socket.gethostname)
    """Goes into the transactional id: must differ between hosts and outlive restarts."""
    tries: int = 5
    """How often an unexpected error may repeat on one record before it is buried."""
    retry_base_seconds: float = 0.2
    retry_most_seconds: float = 15.0
    """An outage of minutes is noticed as over within seconds, by members that do not come all at once."""
    pause_after_seconds: float = 0.2
    """A step that takes longer has its partitions paused. Pausing drops what was prefetched, so short steps go without;
    and a rebalance waits for this long at most."""
    drain_seconds: float = 30.0
    """A step in hand at SIGTERM may finish within this; then it is released, and the next owner repeats it. Below the
    90 s after which systemd kills."""
