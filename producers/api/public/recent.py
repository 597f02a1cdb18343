"""The last events of the jobs that were heard of last: a stream that was cut off goes on where it was."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from headwater.producers.api.public.stream_event import Place, StreamEvent

JOBS = 4_096
"""At 100 jobs a second a reconnect within half a minute finds everything."""
EVENTS = 32
"""Of one job: its changes of state, and the steps of the last half minute."""


class Recent:
    """Safe for threads."""

    def __init__(self, jobs: int = JOBS, events: int = EVENTS) -> None:
        self._jobs = jobs
        self._events = events
        self._lock = Lock()
        self._told: OrderedDict[str, list[StreamEvent]] = OrderedDict()

    def keep(self, event: StreamEvent) -> None:
        with self._lock:
            events = self._told.setdefault(event.job, [])
            self._told.move_to_end(event.job)
            if event.place not in map(_place, events):  # the log may repeat and reorder
                insort(events, event, key=_place)
            del events[: -self._events]
            if len(self._told) > self._jobs:
                self._told.popitem(last=False)

    def since(self, job: str, place: Place) -> list[StreamEvent] | None:
        """The event at ``place`` and all after it; None where that one is not known: too old, or never heard."""
        with self._lock:
            events = self._told.get(job, [])
            if not any(event.place == place for event in events):
                return None
            return [event for event in events if event.place >= place]

    def forget(self) -> None:
        """The log was not followed for a while: what is kept may lack some."""
        with self._lock:
            self._told.clear()


_place: Callable[[StreamEvent], Place] = lambda event: event.place  # noqa: E731
