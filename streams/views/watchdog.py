"""Alive and silent: a client that has stopped reading looks like one that has nothing to read."""

from __future__ import annotations


class Watchdog:
    """Told now and then where the log ends and how many records were taken, it says when the two no longer agree.

    More has come since the last record was taken, and none was taken for ``bound_seconds``: the reader is stuck,
    whatever it says of itself. A log that does not grow proves nothing.
    """

    def __init__(self, bound_seconds: float) -> None:
        self._bound_seconds = bound_seconds
        self._taken = 0
        self._end: int | None = None
        self._owes_since: float | None = None

    def is_stuck(self, now: float, *, end: int, taken: int) -> bool:
        """``now`` in seconds of any clock that does not jump; ``end`` is the log's, ``taken`` only grows."""
        if taken != self._taken or self._end is None:
            self._taken, self._end, self._owes_since = taken, end, None
        elif end > self._end and self._owes_since is None:
            self._owes_since = now
        return self._owes_since is not None and now - self._owes_since >= self._bound_seconds
