"""One stream's end of the fan-out: what was told and not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque

from headwater.producers.api.public.stream_event import Place, StreamEvent

WAITING = 64
"""Events that wait for a slow client. Each is whole in itself, so that the oldest may go: the newest says it all."""


class Watch:
    """Made and read in one event loop; ``tell`` and ``end`` may be called from any thread."""

    def __init__(self, job: str) -> None:
        self.job = job
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[StreamEvent] = deque(maxlen=WAITING)
        self._something = asyncio.Event()
        self._ended = False

    def tell(self, event: StreamEvent) -> None:
        self._call(self._take, event)

    def end(self) -> None:
        """The process stops: whoever reads this gets what waits, and then Ended."""
        self._call(self._finish)

    async def next(self, place: Place, within_seconds: float) -> StreamEvent | None:
        """The first event after ``place``, or None if none came in time. Raises Ended."""
        deadline = self._loop.time() + within_seconds
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                if event.place > place:
                    return event
            if self._ended:
                raise Ended
            self._something.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._something.wait()
            except TimeoutError:
                return None

    def _take(self, event: StreamEvent) -> None:
        self._waiting.append(event)
        self._something.set()

    def _finish(self) -> None:
        self._ended = True
        self._something.set()

    def _call(self, function: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the loop is closed: nobody reads any more
            return


class Ended(Exception):
    """Nothing more will be told here."""
