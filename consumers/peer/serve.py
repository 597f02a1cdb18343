"""Chunks on their way out: one listener for all who know the key, bounded in everything, and never a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.limits import Limits
from headwater.consumers.peer.store import ChunkStore
from headwater.consumers.peer.wire import Connection, Identity


@dataclass(frozen=True, slots=True)
class Served:
    """One upload that ended: to whom, how many bytes went in how many seconds. ``whole``: all that the chunk has.

    ``torn``: the source file changed, in this sentence; nothing of that cast can be served any more.
    """

    epoch: int
    chunk: int
    host: str
    incarnation: int
    bytes: int
    seconds: float
    whole: bool
    torn: str = ""


class Uploads:
    """The listener of a peer and what it serves.

    ``stores`` finds the store of a cast's epoch; None: this peer does not serve it (any more). ``on_control`` gets
    each control connection of another peer and owns it from then on. ``on_served`` is told of each upload that ended.
    All three are called in the threads of connections: they must not block.
    """

    def __init__(
        self,
        config: PeerConfig,
        identity: Identity,
        key: bytes,
        limits: Limits,
        *,
        stores: Callable[[int], ChunkStore | None],
        on_control: Callable[[Connection], None],
        on_served: Callable[[Served], None],
    ) -> None:
        """Listens from now on: ``port`` is known. Raises Refused where the port is taken."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        raise NotImplementedError

    def start(self) -> None:
        """Accepts from now on: call it when the peer is ready to answer."""
        raise NotImplementedError

    @property
    def busy(self) -> int:
        """Slots in use now, of ``config.uploads``."""
        raise NotImplementedError

    def drop(self, host: str, incarnation: int) -> None:
        """Closes the data connections of a peer that is not trusted any more, or dead."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes listener and data connections; uploads under way are cut."""
        raise NotImplementedError
