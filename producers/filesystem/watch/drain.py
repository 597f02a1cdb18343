"""The thread that only drains events."""

from __future__ import annotations

import select
from collections.abc import Callable
from threading import Thread

_WAIT_MILLISECONDS = 200
"""How long the thread takes to notice that it shall stop."""


class Drain:
    """Calls ``read`` whenever ``descriptor`` has events, and ``wake`` where it returns that they matter, or raises.

    What ``read`` raises ends the thread; ``check`` raises it again.
    """

    def __init__(self, descriptor: int, read: Callable[[], bool], wake: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._read = read
        self._wake = wake
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the thread has ended."""
        self._stopping = True
        if self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        try:
            while not self._stopping:
                if poll.poll(_WAIT_MILLISECONDS) and self._read():
                    self._wake()
        except BaseException as error:
            self._failure = error
            self._wake()
