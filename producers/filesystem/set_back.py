"""A wall clock that is set back.

No order hangs on the wall clock: changes have the index's counter. Only how long something waits does, so that after
the clock was set back nothing waits for it to be what it was, and no listing of a later time proves anything.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.observe import logs
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.settle import Settling
from headwater.producers.filesystem.walk import Walk

log = logs.logger()

_SET_SECONDS = 1.0
"""A clock that goes back by more was set; by less, it is being corrected."""


class SetBack:
    """Called from the agent's thread only."""

    def __init__(self, source: str, index: Index, settling: Settling, walk: Walk, clock: Callable[[], float]) -> None:
        self._source = source
        self._index = index
        self._settling = settling
        self._walk = walk
        self._clock = clock
        self._latest = clock()

    def begin(self) -> None:
        """At the start, since the clock may have been set back while no agent ran: everything is to be listed."""
        self._latest = self._clock()
        with self._index.transaction():
            self._index.forget_future(self._latest)
            self._walk.start_over()

    def heed(self) -> None:
        """Begin anew where the clock was set back since the last call."""
        now = self._clock()
        if now < self._latest - _SET_SECONDS:
            log.warning("clock.set_back", source=self._source, seconds=round(self._latest - now, 1))
            self._settling.begin_anew(now)
            self.begin()
        self._latest = now
