"""How many uploads a peer has under way, and which it takes on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.rules.cast.choice import UPLOADS_PER_CHUNK, admits

RackMate = Callable[[str], bool]
"""Is the host of this name in our rack?"""


class Slots:
    """All methods from any thread. ``rack_mate`` None: an origin, to which all hosts are alike; it has ``most``."""

    def __init__(self, rack_mate: RackMate | None, most: int) -> None:
        self._rack_mate = rack_mate
        self._most = most
        self._lock = threading.Lock()
        self._taken: dict[bool, Counter[tuple[int, int]]] = {False: Counter(), True: Counter()}
        """By whether the asker is in another rack: how many uploads of each epoch's chunk."""

    @contextmanager
    def taken(self, host: str, epoch: int, chunk: int, most: int | None) -> Iterator[bool]:
        """A slot for the time of the block. False: there is none, and there will be no queue. ``most``: of the cast."""
        crosses = self._rack_mate is not None and not self._rack_mate(host)
        with self._lock:
            taken = self._taken[crosses]
            free = self._admits(crosses, taken.total(), taken[epoch, chunk])
            if most is not None:
                free = free and self._of_cast(epoch) < most
            if free:
                taken[epoch, chunk] += 1
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    taken[epoch, chunk] -= 1
                    if not taken[epoch, chunk]:
                        del taken[epoch, chunk]

    @property
    def busy(self) -> int:
        with self._lock:
            return sum(taken.total() for taken in self._taken.values())

    def sending(self, epoch: int) -> frozenset[int]:
        """The cast's chunks that are under way now."""
        with self._lock:
            return frozenset(chunk for taken in self._taken.values() for cast, chunk in taken if cast == epoch)

    def _of_cast(self, epoch: int) -> int:
        return sum(count for taken in self._taken.values() for (cast, _), count in taken.items() if cast == epoch)

    def _admits(self, crosses: bool, uploads: int, uploads_of_chunk: int) -> bool:
        if self._rack_mate is None:
            return uploads < self._most and uploads_of_chunk < UPLOADS_PER_CHUNK
        return admits(crosses, uploads, uploads_of_chunk)
