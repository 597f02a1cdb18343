"""Chunks that were handed to this host: by importers of the racks above or below its own, or by the origin."""

from __future__ import annotations

from headwater.consumers.peer.swarm.others import Others, Who


class Handed:
    """Who has them. Of the scheduler's thread only."""

    def __init__(self, others: Others) -> None:
        self._others = others
        self._from: dict[int, list[Who]] = {}

    def chunks(self) -> set[int]:
        return {*self._from}

    def add(self, chunk: int, who: Who) -> None:
        """It has the chunk, and said so to this host."""
        known = self._from.setdefault(chunk, [])
        if who not in known:
            known.append(who)

    def withdraw(self, chunk: int, who: Who) -> None:
        """It did not bring the chunk."""
        left = [other for other in self._from.get(chunk, []) if other != who]
        if left:
            self._from[chunk] = left
        else:
            self.drop(chunk)

    def drop(self, chunk: int) -> None:
        """The chunk is here."""
        self._from.pop(chunk, None)

    def source(self, chunk: int, now: float) -> Who | None:
        """Whom to ask for it now."""
        for who in self._from.get(chunk, []):
            other = self._others.find(who)
            if other is not None and self._others.usable(other, now):
                return who
        return None
