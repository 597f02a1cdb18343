"""Alive and silent: a client that has stopped reading looks like one that has nothing to read."""

from __future__ import annotations


class Watchdog:
    """Told now and then what is on the log and what was taken from it, it says when the two do not come together.

    Something is there to be read, and none of it was taken for ``bound_seconds``: the reader is stuck, whatever it says
    of itself. Where nothing is left to read, silence proves nothing.
    """

    def __init__(self, bound_seconds: float) -> None:
        self._bound_seconds = bound_seconds
        self._began: int | None = None
        self._reached = -1
        self._owes_since: float | None = None

    def is_stuck(self, now: float, *, end: int, committed: int, taken: int) -> bool:
        """``now`` in seconds of any clock that does not jump; ``end`` is the log's offset; ``committed`` the group's,
        or the log's beginning where it has none; ``taken`` counts the reader's own records."""
        if self._began is None:
            self._began = committed - taken
        reached = max(committed, self._began + taken)
        if reached >= end or reached != self._reached:
            self._reached, self._owes_since = reached, None
        if reached < end and self._owes_since is None:
            self._owes_since = now
        return self._owes_since is not None and now - self._owes_since >= self._bound_seconds

    def forgive(self) -> None:
        """The log cannot be asked: nobody can read it either, and the wait begins anew."""
        self._owes_since = None
