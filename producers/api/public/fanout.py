"""Tells every stream of this process what happens to its job.

One thread follows ``jobs.events`` from its end; it reads no group's offsets and commits none. What the log does not
bring, the catalog does: all watched jobs are looked at in one query, seldom while the log is followed, often while
Kafka is away. A stream that hears an event twice, or late, drops it by its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any

from headwater.connectors.jobs import reading
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.observe import logs
from headwater.producers.api.public.recent import Recent
from headwater.producers.api.public.stream_event import Place, StreamEvent
from headwater.producers.api.public.watch import Watch
from headwater.rules.errors import BadRecord, HeadwaterError
from headwater.schemas.codec import decode
from headwater.schemas.job_records import JobEvent
from headwater.schemas.topics import JOBS_EVENTS

log = logs.logger()

LOOK_SECONDS = 15.0
"""How often the catalog is looked at beside the log: a lost record costs a stream so long."""
LOOK_ALONE_SECONDS = 1.0
"""The same while the log cannot be followed."""
_READ_SECONDS = 0.25
"""How soon the thread notices that it is to stop."""
_PROBE_SECONDS = 0.5
_AT_ONCE = 1_000
"""Jobs of one query."""


class Fanout:
    """Follows inside its block. Safe for threads."""

    def __init__(self, kafka: Kafka, database: JobsDatabase) -> None:
        self._kafka = kafka
        self._database = database
        self._lock = Lock()
        self._watches: dict[str, set[Watch]] = {}
        self._recent = Recent()
        self._stopping = Event()
        self._looked = 0.0
        self._trouble = ""
        self._thread = Thread(target=self._run, name="fanout", daemon=True)

    @property
    def trouble(self) -> str:
        """Why the log is not followed now; empty: it is."""
        return self._trouble

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
        """What happened after the event at ``place``, if that is still known here."""
        return self._recent.since(job, place)

    def end(self) -> None:
        """Ends every stream: their clients resume them at another process. From any thread."""
        self._stopping.set()
        with self._lock:
            watches = [watch for of_job in self._watches.values() for watch in of_job]
        for watch in watches:
            watch.end()

    def __enter__(self) -> Fanout:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except HeadwaterError as error:
                self._degrade(error.happened)
                self._look()
                self._stopping.wait(LOOK_ALONE_SECONDS)

    def _follow(self) -> None:
        """Returns when the process stops. Raises HeadwaterError where the log cannot be followed."""
        places = offsets.partitions(self._kafka, JOBS_EVENTS.name)
        following = Following(self._kafka, offsets.ends(self._kafka, places))
        self._recent.forget()
        try:
            self._recover()
            self._look()  # at what happened before the ends that are followed now
            while not self._stopping.is_set():
                for message in following.read(_READ_SECONDS):
                    self._hear(message.value())
                self._notice_silence(following)
                if time.monotonic() - self._looked >= (LOOK_ALONE_SECONDS if self._trouble else LOOK_SECONDS):
                    self._look()
        finally:
            following.close()

    def _notice_silence(self, following: Following) -> None:
        if self._kafka.silent_since() is None:
            self._recover()
        elif following.broker_answers(_PROBE_SECONDS):
            self._kafka.answered()
        else:
            self._degrade(f"Kafka at {self._kafka.config.bootstrap_servers} does not answer.")

    def _degrade(self, trouble: str) -> None:
        if not self._trouble:
            log.warning("fanout.degraded", reason=trouble, kept="Streams go on from the catalog.")
        self._trouble = trouble

    def _recover(self) -> None:
        if self._trouble:
            log.info("fanout.resumed")
        self._trouble = ""

    def _hear(self, value: bytes | None) -> None:
        try:
            record = decode(value)
        except BadRecord:
            return  # the groups bury it, and say so
        event = StreamEvent.of_record(record) if isinstance(record, JobEvent) else None
        if event is not None:
            self._recent.keep(event)
            self._tell(event)

    def _look(self) -> None:
        """The catalog's word on every watched job. While the catalog is away streams only wait."""
        self._looked = time.monotonic()
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
