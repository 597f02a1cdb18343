"""Tells every stream of this process what happens to its job.

What happens is heard on the log (``Follower``). What the log does not bring, the catalog does: all watched jobs are
looked at in one query, seldom while the log is followed, often while Kafka is away. A stream that hears an event twice,
or late, drops it by its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any

from headwater.connectors.jobs import reading
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs
from headwater.producers.api.public.follower import Follower
from headwater.producers.api.public.recent import Recent
from headwater.producers.api.public.stream_event import Place, StreamEvent
from headwater.producers.api.public.watch import Watch
from headwater.rules.errors import HeadwaterError

log = logs.logger()

LOOK_SECONDS = 15.0
"""How often the catalog is looked at beside the log: a lost record costs a stream so long."""
LOOK_ALONE_SECONDS = 1.0
"""The same while the log cannot be followed."""
_GLANCE_SECONDS = 0.25
_AT_ONCE = 1_000
"""Jobs of one query."""


class Fanout:
    """Tells inside its block. Safe for threads."""

    def __init__(self, kafka: Kafka, database: JobsDatabase) -> None:
        self._database = database
        self._lock = Lock()
        self._watches: dict[str, set[Watch]] = {}
        self._recent = Recent()
        self._follower = Follower(kafka, self._hear, self._begin)
        self._stopping = Event()
        self._look_due = 0.0
        self._thread = Thread(target=self._run, name="fanout", daemon=True)

    @property
    def trouble(self) -> str:
        """Why the log is not followed now; empty: it is."""
        return self._follower.trouble

    def watching(self) -> int:
        """Streams that are open."""
        with self._lock:
            return sum(map(len, self._watches.values()))

    @contextmanager
    def watch(self, job: str) -> Iterator[Watch]:
        """A stream of this job's events from now on. Call it in the event loop that reads it."""
        watch = Watch(job)
        with self._lock:
            self._watches.setdefault(job, set()).add(watch)
        try:
            if self._stopping.is_set():
                watch.end()
            yield watch
        finally:
            with self._lock:
                left = self._watches[job]
                left.discard(watch)
                if not left:
                    del self._watches[job]

    def since(self, job: str, place: Place) -> list[StreamEvent] | None:
        """The event at ``place`` and what happened after it, if that is still known here."""
        return self._recent.since(job, place)

    def end(self) -> None:
        """Ends every stream: their clients resume them at another process. From any thread."""
        self._stopping.set()
        with self._lock:
            watches = [watch for of_job in self._watches.values() for watch in of_job]
        for watch in watches:
            watch.end()

    def __enter__(self) -> Fanout:
        self._follower.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
        self._thread.join()
        self._follower.__exit__()

    def _begin(self) -> None:
        """What was heard before may lack some, and what happened meanwhile is to be looked up."""
        self._recent.forget()
        self._look_due = 0.0

    def _hear(self, job: str, value: bytes) -> None:
        self._recent.keep(job, value)
        with self._lock:
            if job not in self._watches:
                return
        event = StreamEvent.of_value(value)
        if event is not None:
            self._tell(event)

    def _run(self) -> None:
        while not self._stopping.wait(_GLANCE_SECONDS):
            now = time.monotonic()
            if self._follower.trouble:
                self._look_due = min(self._look_due, now + LOOK_ALONE_SECONDS)
            if now >= self._look_due:
                self._look_due = now + LOOK_SECONDS
                self._look()

    def _look(self) -> None:
        """The catalog's word on every watched job. While the catalog is away streams only wait."""
        with self._lock:
            jobs = list(self._watches)
        now_us = time.time_ns() // 1_000
        try:
            for at in range(0, len(jobs), _AT_ONCE):
                with self._database.quiet() as transaction:
                    views = reading.present(transaction, jobs[at : at + _AT_ONCE])
                for view in views:
                    self._tell(StreamEvent.of_view(view, now_us))
        except HeadwaterError as error:
            log.warning("fanout.not_looked", error=str(error), kept="Streams wait.")

    def _tell(self, event: StreamEvent) -> None:
        with self._lock:
            watches = tuple(self._watches.get(event.job, ()))
        for watch in watches:
            watch.tell(event)
