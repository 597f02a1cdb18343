"""What a cast needs of the peer that takes part in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from headwater.consumers.peer.bytes.fetch import Fetch
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.swarm.actions import Tell
from headwater.consumers.peer.swarm.others import Who
from headwater.schemas.records import Record

Result = TypeVar("Result")


class Surroundings(Protocol):
    """All methods are for the scheduler's thread; none blocks."""

    config: PeerConfig
    rack: str

    @property
    def who(self) -> Who:
        """This host, and which start of it this is."""

    @property
    def folder(self) -> CastFolder:
        """Where files appear."""

    def address(self, who: Who) -> str | None:
        """Where that incarnation serves; None where it is not known (any more)."""

    def submit(self, fetch: Fetch) -> None:
        """Fetches a chunk; how that ended comes back to the cast."""

    def tell(self, epoch: int, tell: Tell) -> None:
        """Says so, a moment later, together with others."""

    def say(self, record: Record) -> None:
        """A word for the log."""

    def on_disk(self, work: Callable[[], Result], then: Callable[[Result | Exception], None]) -> None:
        """Does ``work``, which may take long, in a thread of the disk's; ``then`` is called in the scheduler's."""

    def announce(self, epoch: int) -> None:
        """BITS, to all rack-mates that take part."""

    def introduce(self, epoch: int, who: Who) -> None:
        """BITS, to one that takes part from now on."""

    def release(self, epoch: int) -> None:
        """The cast is neither received nor served any more."""
