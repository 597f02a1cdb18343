"""Caps on what a peer sends or receives, per host and per cast: shared by all streams, changed at any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headwater.rules.cast.bucket import Bucket

LARGEST, SMALLEST = 1024 * 1024, 4 * 1024
"""Bytes that pass at once."""
TURN_SECONDS = 0.02
"""Every stream gets a piece in about this time, however many share a cap: none looks as if it stood still."""
FEWEST_SLOTS = 2
CHUNK_SECONDS = 1.0
"""Under a cap, so few chunks are sent at once that one takes no longer: better some whole ones than many halves."""


class Limits:
    """One direction's caps. ``wait`` is called by every stream before each piece; ``cap_…`` by the scheduler."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        """The cap of the host, for all casts together; None: none."""
        self._changed = threading.Condition()
        self._host = _Cap(bytes_per_second) if bytes_per_second else None
        self._casts: dict[int, _Cap] = {}

    def cap_host(self, bytes_per_second: int | None) -> None:
        with self._changed:
            self._host = _changed(self._host, bytes_per_second)
            self._changed.notify_all()

    def cap_cast(self, epoch: int, bytes_per_second: int | None) -> None:
        """Also how a rack's cap comes here: each of its hosts gets a share of it."""
        with self._changed:
            cap = _changed(self._casts.pop(epoch, None), bytes_per_second)
            if cap:
                self._casts[epoch] = cap
            self._changed.notify_all()

    def piece(self, epoch: int) -> int:
        """Bytes to ask for at once."""
        shares = [cap.bucket.rate / (1 + cap.waiting) for cap in self._caps(epoch)]
        return max(SMALLEST, min(LARGEST, int(min(shares) * TURN_SECONDS))) if shares else LARGEST

    @property
    def waiting(self) -> int:
        """Streams that caps hold back now."""
        with self._changed:
            caps = [*self._casts.values(), *([self._host] if self._host else [])]
            return sum(cap.waiting for cap in caps)

    def slots(self, epoch: int, chunk_bytes: int) -> int | None:
        """How many chunks of a cast may be under way at once; None: the caps say nothing about it."""
        rates = [cap.bucket.rate for cap in self._caps(epoch)]
        return max(FEWEST_SLOTS, int(min(rates) * CHUNK_SECONDS / chunk_bytes)) if rates else None

    def wait(self, epoch: int, amount: int) -> float:
        """Returns when ``amount`` more bytes of this cast may pass, and how many seconds that took."""
        if self._host is None and epoch not in self._casts:
            return 0.0
        began = time.monotonic()
        with self._changed:
            self._pass(lambda: self._casts.get(epoch), amount)
            self._pass(lambda: self._host, amount)
        return time.monotonic() - began

    def _pass(self, cap_now: Callable[[], _Cap | None], amount: int) -> None:
        """Waits for the turn at a cap; one that was lifted meanwhile is waited for no more."""
        cap = cap_now()
        if cap is None:
            return
        place = cap.bucket.place(amount, time.monotonic())
        cap.waiting += 1
        while cap_now() is cap and (seconds := cap.bucket.wait(place, time.monotonic())):
            self._changed.wait(seconds)
        cap.waiting -= 1

    def _caps(self, epoch: int) -> list[_Cap]:
        return [cap for cap in (self._host, self._casts.get(epoch)) if cap]


class _Cap:
    def __init__(self, bytes_per_second: int) -> None:
        self.bucket = Bucket(bytes_per_second)
        self.waiting = 0
        """Streams that stand in its line."""


def _changed(cap: _Cap | None, bytes_per_second: int | None) -> _Cap | None:
    """Places in the line outlast another rate."""
    if cap is None or bytes_per_second is None:
        return _Cap(bytes_per_second) if bytes_per_second else None
    cap.bucket.change(bytes_per_second, time.monotonic())
    return cap
