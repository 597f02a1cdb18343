"""What a peer has to tell others of its chunks, gathered for a moment: one frame for many chunks."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.consumers.peer.links import frames
from headwater.consumers.peer.swarm.actions import Tell

_TOGETHER_SECONDS = 0.02


class Tells:
    """Of all casts. Of the scheduler's thread only."""

    def __init__(self) -> None:
        self._by_host: dict[str, dict[tuple[int, bool], list[int]]] = {}
        self.due_at: float | None = None
        """When what was gathered goes out; None: there is nothing."""

    def add(self, epoch: int, tell: Tell, now: float) -> None:
        for host in tell.hosts:
            self._by_host.setdefault(host, {}).setdefault((epoch, tell.coming), []).append(tell.chunk)
            self.due_at = self.due_at or now + _TOGETHER_SECONDS

    def take(self, now: float) -> Iterator[tuple[str, bytes]]:
        """What is due, by host."""
        if self.due_at is None or now < self.due_at:
            return
        gathered, self._by_host, self.due_at = self._by_host, {}, None
        for host, casts in gathered.items():
            yield host, b"".join(frames.have(epoch, said, coming=coming) for (epoch, coming), said in casts.items())
