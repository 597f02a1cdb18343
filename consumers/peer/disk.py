"""Work that waits for the disk, in threads of its own: its result comes back to the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.rules.errors import HeadwaterError

Result = TypeVar("Result")

_AT_ONCE = 2
"""A file that is hashed anew for minutes does not hold up another."""


class Disk:
    """``post`` hands a call to the scheduler, from any thread."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._threads = ThreadPoolExecutor(_AT_ONCE, "disk")

    def do(self, work: Callable[[], Result], then: Callable[[Result | Exception], None]) -> None:
        """``then`` gets, in the scheduler's thread, what ``work`` returned, or raised of ours or the disk's."""

        def done() -> None:
            try:
                result: Result | Exception = work()
            except (HeadwaterError, OSError) as error:
                result = error
            self._post(lambda: then(result))

        self._threads.submit(done)

    def close(self) -> None:
        """Waits for what was begun."""
        self._threads.shutdown()
