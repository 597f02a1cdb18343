"""The last events of the jobs that were heard of last: a stream that was cut off goes on where it was.

They are kept as they came and decoded when somebody asks: most jobs have no stream, and none that was cut off.
"""

from __future__ import annotations

from collections import OrderedDict, deque
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
        self._values: OrderedDict[str, deque[bytes]] = OrderedDict()

    def keep(self, job: str, value: bytes) -> None:
        """A record of the log."""
        with self._lock:
            values = self._values.pop(job, None)
            self._values[job] = values = deque(maxlen=self._events) if values is None else values
            values.append(value)
            if len(self._values) > self._jobs:
                self._values.popitem(last=False)

    def since(self, job: str, place: Place) -> list[StreamEvent] | None:
        """The event at ``place`` and all after it; None where that one is not known: too old, or never heard."""
        with self._lock:
            values = tuple(self._values.get(job, ()))
        events = {event.place: event for value in values if (event := StreamEvent.of_value(value)) is not None}
        if place not in events:
            return None
        return [events[at] for at in sorted(events) if at >= place]  # the log may repeat and reorder

    def forget(self) -> None:
        """The log was not followed for a while: what is kept may lack some."""
        with self._lock:
            self._values.clear()
