"""What the log is told of one row of the outbox. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headwater.connectors.jobs.outbox import Told
from headwater.connectors.kafka.headers import HeaderList, event_headers
from headwater.connectors.kafka.partitioning import partition_of
from headwater.rules.jobs.states import JobState
from headwater.schemas.codec import encode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind, JobRequested
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED, Topic


class Outgoing(NamedTuple):
    topic: Topic
    partition: int
    key: bytes
    value: bytes
    headers: HeaderList


def records(told: Told) -> Iterator[Outgoing]:
    """The event, in the partition of its pool, and in that of the pool that the job left; for a job that waits, also
    what the pool's scheduler must know of it."""
    headers = event_headers(told.at_us, told.trace.encode() if told.trace else None)
    event = _event(told)
    key, value = event.key(), encode(event)
    for pool in (told.pool, told.left_pool):
        if pool is not None:
            yield Outgoing(JOBS_EVENTS, partition_of(pool.encode(), JOBS_EVENTS.partitions), key, value, headers)
    if told.state == JobState.queued:
        partition = partition_of(told.pool.encode(), JOBS_REQUESTED.partitions)
        yield Outgoing(JOBS_REQUESTED, partition, key, encode(_request(told)), headers)


def _event(told: Told) -> JobEvent:
    return JobEvent(
        kind=JobEventKind.state,
        job=told.job,
        version=told.version,
        epoch=told.epoch,
        state=EventState(told.state),
        pool=told.pool,
        tenant=told.tenant,
        progress=told.progress,
        reason=told.reason,
        at_us=told.at_us,
    )


def _request(told: Told) -> JobRequested:
    return JobRequested(
        job=told.job,
        version=told.version,
        epoch=told.epoch,
        pool=told.pool,
        tenant=told.tenant,
        model=told.model,
        size=told.size,
        seconds=told.seconds,
        priority=told.priority,
        cost_seconds=told.cost_seconds,
        queued_us=told.queued_us,
        deadline_us=told.deadline_us,
        not_before_us=told.not_before_us,
    )
