"""Dials of control links: few at a time, and where nobody answers again later, each time after a longer while."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.wire import Connection, Identity, Kind
from headwater.consumers.peer.swarm.others import Who
from headwater.rules.errors import HeadwaterError, Refused

_AT_ONCE = 8
"""A peer that meets a thousand others does not fill anybody's queue."""
_SECONDS = 2.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


class Dials:
    """``ended`` is given whom was dialled and the connection, or why there is none, in a thread of this object's own.

    All else is for one thread.
    """

    def __init__(self, identity: Identity, key: bytes, ended: Callable[[Who, Connection | Exception], None]) -> None:
        self._me, self._key, self._ended = identity, key, ended
        self._underway: set[str] = set()
        self._pauses: dict[str, tuple[float, float]] = {}
        self._random = Random(os.urandom(8))
        self._threads = ThreadPoolExecutor(_AT_ONCE, "dial")

    def begin(self, who: Who, address: str, now: float) -> None:
        """Unless it is being dialled, or was just now in vain."""
        if who[0] not in self._underway and now >= self._pauses.get(who[0], (0.0, 0.0))[0]:
            self._underway.add(who[0])
            self._threads.submit(self._dial, who, address)

    def note(self, who: Who, ended: Connection | Exception) -> Connection | Exception:
        """Takes in how a dial ended; the answer of a host that is another is none."""
        self._underway.discard(who[0])
        if isinstance(ended, Connection) and ended.peer.host != who[0]:
            ended.socket.close()
            ended = Refused(f"{ended.peer.host} answers under the address of {who[0]}.")
        if isinstance(ended, Connection):
            self._pauses.pop(who[0], None)
        else:
            self._pause(who[0])
        return ended

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _dial(self, who: Who, address: str) -> None:
        try:
            made = wire.dial(address, Kind.control, self._me, self._key, _SECONDS, lambda _: None)
        except (HeadwaterError, ValueError) as error:
            self._ended(who, error)
        else:
            self._ended(who, made)

    def _pause(self, host: str) -> None:
        """Full jitter: anything up to a bound that doubles."""
        _, last = self._pauses.get(host, (0.0, _FIRST_PAUSE_SECONDS / 2))
        longest = min(_LONGEST_PAUSE_SECONDS, 2 * last)
        self._pauses[host] = (time.monotonic() + self._random.uniform(0.0, longest), longest)
