"""Requests to the endpoint, gathered: what comes up soon after a request, or while it is under way, waits for the next.

An idle worker so asks at once, and a busy one asks for several jobs at a time: five together cost the endpoint and the
catalog a little more than one. What was not answered is asked again, after a wait, until its attempt is given up.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Generic, TypeVar

from headwater.observe import logs
from headwater.rules.errors import HeadwaterError, Transient

log = logs.logger()

Item = TypeVar("Item")

_MOST = 200
"""Items in a request: a few hundred kilobytes at most."""
_SPACING_SECONDS = 0.025
"""Between the beginnings of two requests. Only a worker that has more than forty jobs a second notices."""
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 1.0


class Gathering(Generic[Item]):
    """A thread that sends items, those of one type together.

    It calls ``ask``, which sends them and passes the answers on; ``wanted``: is an item still to be sent? And ``fail``
    for errors that waiting does not heal.
    """

    def __init__(
        self,
        name: str,
        *,
        ask: Callable[[Sequence[Item]], None],
        wanted: Callable[[Item], bool],
        fail: Callable[[HeadwaterError], None],
    ) -> None:
        self._ask, self._wanted, self._fail = ask, wanted, fail
        self._queue: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._ending = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Sends nothing more; waits for nobody."""
        self._ending = True
        self._queue.put(None)

    def put(self, item: Item) -> None:
        self._queue.put(item)

    def _run(self) -> None:
        unsent: list[Item] = []
        wait = _FIRST_WAIT_SECONDS
        began_at = 0.0
        while not self._ending:
            came = self._gathered(at_least=0 if unsent else 1)
            if (early := began_at + _SPACING_SECONDS - time.monotonic()) > 0:
                time.sleep(early)
                came += self._gathered(at_least=0)
            began_at = time.monotonic()
            unsent = self._send([item for item in unsent + came if self._wanted(item)])
            if unsent:
                time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS) if unsent else _FIRST_WAIT_SECONDS

    def _gathered(self, at_least: int) -> list[Item]:
        items: list[Item] = []
        try:
            while len(items) < _MOST and not self._ending:
                item = self._queue.get(block=len(items) < at_least)
                if item is not None:
                    items.append(item)
        except queue.Empty:
            pass
        return items

    def _send(self, items: list[Item]) -> list[Item]:
        """Returns those that were not answered."""
        unsent: list[Item] = []
        for kind in {type(item) for item in items}:
            same = [item for item in items if type(item) is kind]
            try:
                self._ask(same)
            except Transient as error:
                log.warning("worker.unanswered", request=self._thread.name, items=len(same), error=str(error))
                unsent += same
            except HeadwaterError as error:
                self._fail(error)
        return unsent
