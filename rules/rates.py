"""How much was done in a stretch of time, from counters that only grow and begin anew with each start of a process.

Time is cut into buckets of ten seconds. Of each start (an *incarnation*) and bucket the largest count is kept, and what
was done between two bounds is the difference of the largest counts before them. So a reading that comes twice, late, or
out of order changes nothing, and over adjoining stretches no count is taken twice or left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BUCKET_SECONDS = 10
"""Processes speak every five seconds: a bucket holds two readings, and one that is lost leaves no gap."""


def bucket_of(seconds: float) -> int:
    """The number of the bucket that holds a time (seconds since 1970)."""
    return int(seconds // BUCKET_SECONDS)


@dataclass(frozen=True, slots=True)
class Counts:
    """What one start of a process had done so far, or what was done in a stretch."""

    records: int = 0
    bytes: int = 0
    retries: int = 0
    dead_letters: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.records + other.records,
            self.bytes + other.bytes,
            self.retries + other.retries,
            self.dead_letters + other.dead_letters,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.records - other.records,
            self.bytes - other.bytes,
            self.retries - other.retries,
            self.dead_letters - other.dead_letters,
        )

    def __or__(self, other: Counts) -> Counts:
        """The larger of each."""
        return Counts(
            max(self.records, other.records),
            max(self.bytes, other.bytes),
            max(self.retries, other.retries),
            max(self.dead_letters, other.dead_letters),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """Of one incarnation: its counts as said in a bucket, and how long it had run then."""

    bucket: int
    uptime_seconds: float
    counts: Counts


def counted(readings: Iterable[Reading], first: int, end: int) -> Counts:
    """What one incarnation did in the buckets ``first`` to ``end - 1``, as far as its readings tell.

    Without a reading before them it is known only for a start within them, whose counts began at 0; else what the first
    reading shows was done at an unknown time, and is left out.
    """
    readings = [reading for reading in readings if reading.bucket < end]
    before = [reading for reading in readings if reading.bucket < first]
    within = [reading for reading in readings if reading.bucket >= first]
    if not within:
        return Counts()
    if not before:
        earliest = min(within, key=lambda reading: (reading.bucket, reading.uptime_seconds))
        if earliest.uptime_seconds > (earliest.bucket + 1 - first) * BUCKET_SECONDS:
            before = [earliest]
    return _largest(readings) - _largest(before)


def _largest(readings: Iterable[Reading]) -> Counts:
    largest = Counts()
    for reading in readings:
        largest |= reading.counts
    return largest
