"""Progress of running jobs, told on jobs.events: at most once a second for a job, and never waited for.

Nothing depends on it: owners watch it, and who grants learns a little sooner that a slot is free. What Kafka does not
take within seconds is dropped, since newer progress follows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock

from headwater.connectors.jobs.leases import Beat, Beaten, BeatOutcome
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.connectors.kafka.partitioning import partition_of
from headwater.observe import logs
from headwater.schemas.codec import encode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind
from headwater.schemas.topics import JOBS_EVENTS

log = logs.logger()

_SECONDS = 1.0
_KEPT = 20_000
"""Jobs whose last telling is remembered; who is forgotten is told a little early."""

PROGRESS, FINISHING = "progress", "finishing"


class Progress:
    """Safe for threads. ``pump`` is called each second."""

    def __init__(self, kafka: Kafka) -> None:
        self._topic = kafka.physical(JOBS_EVENTS)
        self._producer = kafka.producer(message_timeout_ms=5_000, linger_ms=5)
        self._told: dict[str, float] = {}
        self._lock = Lock()

    def tell(self, beats: Iterable[Beat], beaten: Iterable[Beaten]) -> None:
        """What was said, and what the catalog made of it: of jobs that run, and have moved."""
        said = {(beat.job, beat.epoch): beat for beat in beats}
        for one in beaten:
            beat = said[one.job, one.epoch]
            finishing = one.entered and beat.stage == "finishing"
            moved = finishing or beat.step > one.before
            if moved and one.outcome is BeatOutcome.extended and self._due(one.job, at_once=finishing):
                self._produce(one, beat, FINISHING if finishing else PROGRESS)

    def pump(self) -> None:
        """Let the client report, and forget jobs that have not moved for long."""
        self._producer.poll(0)
        with self._lock:
            if len(self._told) > _KEPT:
                self._told.clear()

    def close(self) -> None:
        self._producer.flush(2.0)

    def _due(self, job: str, *, at_once: bool) -> bool:
        now = time.monotonic()
        with self._lock:
            if not at_once and now - self._told.get(job, 0.0) < _SECONDS:
                return False
            self._told[job] = now
            return True

    def _produce(self, one: Beaten, beat: Beat, reason: str) -> None:
        at_us = time.time_ns() // 1_000
        event = JobEvent(
            kind=JobEventKind.progress,
            job=one.job,
            version=one.version,
            epoch=one.epoch,
            state=EventState.running,
            pool=one.pool,
            tenant=one.tenant,
            progress=min(99, 100 * beat.step // beat.steps) if beat.steps else 0,
            step=beat.step,
            steps=beat.steps,
            reason=reason,
            at_us=at_us,
        )
        try:
            self._producer.produce(
                self._topic,
                encode(event),
                event.key(),
                partition_of(one.pool.encode(), JOBS_EVENTS.partitions),
                headers=[*event_headers(at_us)],
            )
        except BufferError:  # Kafka is away
            log.debug("progress.dropped", job=one.job)
