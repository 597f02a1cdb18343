"""How far a member is behind: records and seconds for each partition it holds, as metrics."""

from __future__ import annotations

import time

from headwater.observe import metrics
from headwater.streams.runtime.batch import BatchReader
from headwater.streams.runtime.step import Finished

_EVERY_SECONDS = 5.0


class LagWatch:
    """A partition with records left is as many seconds behind as its last processed record is old."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._due = 0.0
        self._processed_until: dict[tuple[str, int], float] = {}

    def observe(self, reader: BatchReader, finished: Finished | None) -> None:
        """Cheap to call every turn: looks every few seconds only."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_SECONDS
        now = time.time()
        if finished is not None:
            for message in finished.reading.messages:
                self._processed_until[reader.place(message)] = message.timestamp()[1] / 1_000
        oldest = now
        for place, records in reader.lags().items():
            until = min(now, self._processed_until.get(place, now)) if records else now
            oldest = min(oldest, until)
            labels = (self._group, place[0], str(place[1]))
            metrics.GROUP_LAG_RECORDS.labels(*labels).set(records)
            metrics.GROUP_LAG_SECONDS.labels(*labels).set(now - until)
        metrics.GROUP_OLDEST_EVENT_TIME.labels(self._group).set(oldest)
