"""How a consumer group does in one partition, judged over a window of samples, as one word and a few figures.

That lag is judged over a window and not by a threshold is the idea of LinkedIn's Burrow; the rule is our own. A group
with a large lag that falls is well; one with a small lag that nobody reads is not. In this order:

    ok        nothing is unread
    stopped   nobody holds the partition, so nothing will move
    rewound   it stands before a place that it had committed in the window: somebody set it back, and it reads again
    stalled   somebody holds it, yet nothing was committed for ``STALLED_SECONDS`` while a record waited
    slow      it moves, but more comes in than it takes, and its next record is already ``LATE_SECONDS`` old
    ok        otherwise: it keeps up, or catches up
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

STALLED_SECONDS = 60.0
"""A batch of large files on a slow uplink may take tens of seconds between two commits; a minute deserves a look."""

LATE_SECONDS = 10.0
"""Below this age of the next record, a lag that grows is a burst that has just begun."""


class Verdict(StrEnum):
    """From the best to the worst."""

    ok = "ok"
    slow = "slow"
    rewound = "rewound"
    stalled = "stalled"
    stopped = "stopped"

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Sample:
    """Where a group and a partition stood at a time (seconds since 1970). ``committed``: the next offset to read."""

    at: float
    committed: int
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """What waits now: how many records, and the age of the next one in seconds."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """``consumed`` and ``produced`` are records a second over the window, None where it has no length.

    ``idle_seconds``: how long the next record has waited without any commit; ``idle_longer``: or longer, since the
    window does not reach further back. ``drain_seconds``: until nothing is unread at this pace, 0 where nothing is,
    None where that never comes.
    """

    verdict: Verdict
    consumed: float | None
    produced: float | None
    idle_seconds: float
    idle_longer: bool
    drain_seconds: float | None

    @property
    def growth(self) -> float | None:
        """Records a second by which the lag grows; negative: it shrinks."""
        return None if self.consumed is None or self.produced is None else self.produced - self.consumed


def judge(samples: Sequence[Sample], unread: Unread, *, held: bool) -> Judgement:
    """``samples``: at least one, oldest first, the last one is now. ``held``: a member holds the partition, or the
    group is just dividing its partitions."""
    now = samples[-1]
    moved_at = _last_move(samples)
    since_move = now.at - (samples[0].at if moved_at is None else moved_at)
    idle = min(since_move, unread.seconds)
    consumed, produced = _rates(samples)
    return Judgement(
        verdict=_verdict(samples, unread, held, idle, consumed, produced),
        consumed=consumed,
        produced=produced,
        idle_seconds=idle,
        idle_longer=moved_at is None and unread.seconds > since_move,
        drain_seconds=_drain(unread, consumed, produced),
    )


def _verdict(
    samples: Sequence[Sample],
    unread: Unread,
    held: bool,
    idle: float,
    consumed: float | None,
    produced: float | None,
) -> Verdict:
    if not unread.records:
        return Verdict.ok
    if not held:
        return Verdict.stopped
    if samples[-1].committed < max(sample.committed for sample in samples):
        return Verdict.rewound
    if idle >= STALLED_SECONDS:
        return Verdict.stalled
    grows = consumed is not None and produced is not None and produced > consumed
    return Verdict.slow if grows and unread.seconds >= LATE_SECONDS else Verdict.ok


def _last_move(samples: Sequence[Sample]) -> float | None:
    """When the committed offset last changed, as far as the window shows."""
    for before, after in zip(reversed(samples[:-1]), reversed(samples), strict=False):
        if before.committed != after.committed:
            return after.at
    return None


def _rates(samples: Sequence[Sample]) -> tuple[float | None, float | None]:
    """(consumed, produced) a second, since the last time that the group was set back."""
    began = max(
        (number for number in range(1, len(samples)) if samples[number].committed < samples[number - 1].committed),
        default=0,
    )
    first, last = samples[began], samples[-1]
    seconds = last.at - first.at
    if seconds <= 0:
        return None, None
    return (last.committed - first.committed) / seconds, max(0, last.end - first.end) / seconds


def _drain(unread: Unread, consumed: float | None, produced: float | None) -> float | None:
    if not unread.records:
        return 0.0
    if consumed is None or produced is None or consumed <= produced:
        return None
    return unread.records / (consumed - produced)
