"""Caps on what a peer sends or receives, per host and per cast: shared by all streams, changed at any time."""

from __future__ import annotations

import threading
import time

from headwater.rules.cast.bucket import Bucket

LARGEST, SMALLEST = 1024 * 1024, 16 * 1024
"""Bytes that pass at once. Smaller where a cap is low, so that eight streams that share it all still move."""
_PIECES_PER_SECOND = 50


class Limits:
    """One direction's caps. ``wait`` is called by every stream before each piece; ``cap`` by the scheduler."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        """The cap of the host, for all casts together; None: none."""
        self._changed = threading.Condition()
        self._host = _bucket(bytes_per_second)
        self._casts: dict[int, Bucket] = {}

    def cap_host(self, bytes_per_second: int | None) -> None:
        with self._changed:
            self._host = _bucket(bytes_per_second)
            self._changed.notify_all()

    def cap_cast(self, epoch: int, bytes_per_second: int | None) -> None:
        """Also how a rack's cap comes here: each of its hosts gets a share of it."""
        with self._changed:
            bucket = _bucket(bytes_per_second)
            if bucket:
                self._casts[epoch] = bucket
            else:
                self._casts.pop(epoch, None)
            self._changed.notify_all()

    def piece(self, epoch: int) -> int:
        """Bytes to ask for at once."""
        rates = [bucket.rate for bucket in (self._host, self._casts.get(epoch)) if bucket]
        return max(SMALLEST, min(LARGEST, int(min(rates) / _PIECES_PER_SECOND))) if rates else LARGEST

    def wait(self, epoch: int, amount: int) -> float:
        """Returns when ``amount`` more bytes of this cast may pass, and how many seconds that took."""
        if self._host is None and epoch not in self._casts:
            return 0.0
        began = time.monotonic()
        with self._changed:
            while (cast := self._casts.get(epoch)) and (seconds := cast.take(amount, time.monotonic())):
                self._changed.wait(seconds)
            while self._host and (seconds := self._host.take(amount, time.monotonic())):
                self._changed.wait(seconds)
        return time.monotonic() - began


def _bucket(bytes_per_second: int | None) -> Bucket | None:
    return Bucket(bytes_per_second) if bytes_per_second else None
