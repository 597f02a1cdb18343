"""How the origin hands out its chunks: each about once, in order, to whoever imports it first, and no faster than they
are taken.

No I/O and no clock, like the swarm. Of the scheduler's thread only. A thousand hosts that begin at once are told
nothing until it is their turn: they do not storm the origin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from headwater.consumers.peer.swarm.actions import Tell
from headwater.consumers.peer.swarm.others import Who
from headwater.consumers.peer.swarm.tree import Tree, racks_of
from headwater.rules.cast.deadlines import deadline_seconds
from headwater.rules.cast.fallback import ORIGIN_SLOTS, offers

_RECENT = 64
_ROUNDS = 2
_FIRST_DEADLINE_SECONDS = 1.0
"""How long an offer may lie untaken while no upload has shown how long one takes: a link opens, a request comes."""


@dataclass(slots=True)
class _Offer:
    attempt: int
    host: str | None
    since: float


class Offers:
    """The chunks of the cast ``epoch`` of which ``origin`` is the source."""

    def __init__(self, epoch: int, origin: Who, first: int = 0) -> None:
        """``first``: the chunk to begin with."""
        self._epoch, self._origin = epoch, origin
        self._tree = Tree(epoch, origin[0], "", {})
        self._hashed = 0
        self._next = first
        self._open: dict[int, _Offer] = {}
        self._took: deque[float] = deque(maxlen=_RECENT)

    @property
    def handed_out(self) -> int:
        """The chunks before this one were offered; all of them but those that are on offer now were taken."""
        return min(self._open, default=self._next)

    def racks(self) -> frozenset[str]:
        """The racks that chunks are handed to."""
        return frozenset(self._tree.racks)

    def place(self, hosts: Sequence[tuple[str, int, str]], slow: frozenset[str]) -> None:
        """Everybody who takes part now: host, incarnation, rack."""
        self._tree = Tree(self._epoch, self._origin[0], "", racks_of(hosts, self._origin[0], slow))

    def gone(self, who: Who) -> None:
        """What was offered to it is offered to the next."""
        for offer in self._open.values():
            if offer.host == who[0]:
                offer.host = None

    def hashed(self, count: int) -> None:
        """The first so many chunks can be sent."""
        self._hashed = count

    def served(self, chunk: int, seconds: float, *, whole: bool) -> None:
        """An upload of the chunk ended, to whomever it went."""
        if whole:
            self._took.append(seconds)
            self._open.pop(chunk, None)
        elif chunk in self._open:
            self._open[chunk].host = None

    def act(self, sending: frozenset[int], slots: int, now: float) -> list[Tell]:
        """Whom to tell of which chunk now. ``sending``: the chunks that are on their way to somebody; ``slots``: how
        many may be, where a cap allows less than an origin can."""
        if not self._tree.racks:
            return []
        late = deadline_seconds(median(self._took)) if self._took else _FIRST_DEADLINE_SECONDS
        told = []
        for chunk, offer in [*self._open.items()]:
            if chunk in sending:
                offer.since = now
            elif offer.host is None or now - offer.since >= max(late, _FIRST_DEADLINE_SECONDS):
                told += self._offer(chunk, offer.attempt + 1, now)
        taken = len(self._open) + len(sending - self._open.keys()) + max(0, ORIGIN_SLOTS - slots)
        for _ in range(offers(self._next, self._hashed, taken)):
            self._next += 1
            told += self._offer(self._next - 1, 0, now)
        return told

    def _offer(self, chunk: int, attempt: int, now: float) -> list[Tell]:
        """What nobody takes, though all were told twice, is left to those who will ask."""
        hosts = self._tree.offered(chunk)
        if attempt >= _ROUNDS * len(hosts):
            self._open.pop(chunk, None)
            return []
        host = hosts[attempt % len(hosts)]
        self._open[chunk] = _Offer(attempt, host, now)
        return [Tell((host,), chunk)]
