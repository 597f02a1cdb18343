"""What a process says of itself to the fleet: its metrics, added up into one record.

A process has one task, so most metrics are none of its own and add nothing. In a process that runs several, as a test
may, each says what all of them did.
"""

from __future__ import annotations

import socket
import time
import uuid
from itertools import count
from typing import Any

from headwater.observe import metrics
from headwater.observe.http import Health
from headwater.schemas.records import PartitionLag, Stage, Telemetry

STOPPED = "stopped"
"""The last word of a process that ends as it should."""

_RECORDS = (metrics.AGENT_RECORDS_SENT, metrics.GROUP_RECORDS, metrics.COMMIT_CHANGES)
_BYTES = (metrics.AGENT_READ_BYTES, metrics.UPLOAD_BYTES, metrics.VERIFY_BYTES, metrics.COMMIT_BYTES)
_RETRIES = (metrics.GROUP_RETRIES, metrics.COMMIT_RETRIES)
_WAITING = (
    metrics.AGENT_SETTLING,
    metrics.AGENT_OUTBOX,
    metrics.GROUP_LAG_RECORDS,
    metrics.COMMIT_UNCOMMITTED,
)


class Speaker:
    """This start of a process. ``group``: what it is a member of. Used from one thread at a time."""

    def __init__(self, group: str, stage: Stage) -> None:
        self.group = group
        self.stage = stage
        self._incarnation = uuid.uuid4().hex
        self._host = socket.gethostname()
        self._started_us = time.time_ns() // 1_000
        self._numbers = count()

    def say(self, health: Health) -> Telemetry:
        """The next word: everything that was counted since the start, and how the process is."""
        lags = _lags()
        waiting = _total(*_WAITING)
        return Telemetry(
            group=self.group,
            stage=self.stage,
            host=self._host,
            incarnation=self._incarnation,
            number=next(self._numbers),
            started_us=self._started_us,
            sent_us=time.time_ns() // 1_000,
            state=health.state,
            reason=health.reason,
            records=_total(*_RECORDS),
            content_bytes=_total(*_BYTES),
            retries=_total(*_RETRIES),
            dead_letters=_total(metrics.GROUP_DEAD_LETTERS),
            waiting=waiting,
            oldest_us=_oldest_us() if lags else None,
            lags=lags,
        )


def _samples(metric: Any) -> list[Any]:
    return [one for family in metric.collect() for one in family.samples if not one.name.endswith("_created")]


def _total(*summed: Any) -> int:
    return int(sum(sample.value for metric in summed for sample in _samples(metric)))


def _oldest_us() -> int | None:
    return min((int(one.value * 1_000_000) for one in _samples(metrics.GROUP_OLDEST_EVENT_TIME)), default=None)


def _lags() -> tuple[PartitionLag, ...]:
    seconds = {tuple(one.labels.values()): one.value for one in _samples(metrics.GROUP_LAG_SECONDS)}
    return tuple(
        PartitionLag(
            topic=one.labels["topic"],
            partition=int(one.labels["partition"]),
            records=int(one.value),
            seconds=seconds.get(tuple(one.labels.values()), 0.0),
        )
        for one in _samples(metrics.GROUP_LAG_RECORDS)
        if one.value
    )
