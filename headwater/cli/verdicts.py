"""The lag of groups with a verdict on each partition and a sentence for each verdict."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from headwater.cli import output
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.lag import GroupLag, PartitionLag, group_lags
from headwater.connectors.kafka.lag_history import WINDOW_SECONDS, Subject, lag_history, sample, subject
from headwater.rules.errors import Refused
from headwater.rules.lag import Judgement, Sample, Unread, Verdict, judge


@dataclass(frozen=True, slots=True)
class JudgedPartition:
    lag: PartitionLag
    judgement: Judgement
    sentence: str


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """``state`` is Kafka's word. ``growth``: records a second by which the lag grows (negative: it shrinks), None where
    nothing is known. ``drain_seconds``: None where it never ends at this pace."""

    group: str
    state: str
    members: int
    partitions: tuple[JudgedPartition, ...]

    @property
    def worst(self) -> JudgedPartition | None:
        """The partition with the worst verdict; of several, the one that is furthest behind."""
        return max(
            self.partitions,
            key=lambda at: (at.judgement.verdict.severity, at.lag.seconds, at.lag.records),
            default=None,
        )

    @property
    def verdict(self) -> Verdict:
        return self.worst.judgement.verdict if self.worst else Verdict.ok

    @property
    def records(self) -> int:
        return sum(at.lag.records for at in self.partitions)

    @property
    def seconds(self) -> float:
        return max((at.lag.seconds for at in self.partitions), default=0.0)

    @property
    def growth(self) -> float | None:
        known = [at.judgement.growth for at in self.partitions if at.judgement.growth is not None and at.lag.records]
        return sum(known) if known else None

    @property
    def drain_seconds(self) -> float | None:
        drains = [at.judgement.drain_seconds for at in self.partitions]
        known = [seconds for seconds in drains if seconds is not None]
        return max(known, default=0.0) if len(known) == len(drains) else None


class LagWindow:
    """Measures again and again; keeps the samples of the last minutes.

    The first ones come from Kafka's own log of commits, so that one measurement is enough for a verdict. Where that log
    cannot be read (no permission, a transaction that hangs), a second measurement follows after ``pause_seconds``.
    """

    def __init__(self, kafka: Kafka, only: Collection[str], pause_seconds: float) -> None:
        self._kafka = kafka
        self._only = only
        self._pause_seconds = pause_seconds
        self._samples: dict[Subject, deque[Sample]] = {}
        self._begun = False

    def measure(self) -> list[JudgedGroup]:
        """The groups as they are now."""
        groups = self._look(first=not self._begun)
        if not self._begun:
            self._begun = True
            behind = [subject(group, at) for group in groups for at in group.partitions if at.records]
            if any(len(self._samples[of]) < 2 for of in behind):
                time.sleep(self._pause_seconds)
                groups = self._look(first=False)
        return [self._judged(group) for group in groups]

    def _look(self, *, first: bool) -> list[GroupLag]:
        now = time.time()
        groups = group_lags(self._kafka, now, self._only)
        if first:
            with suppress(Refused):
                history = lag_history(self._kafka, groups, now)
                self._samples = {of: deque(samples) for of, samples in history.items()}
        self._add(groups, now)
        return groups

    def _add(self, groups: Iterable[GroupLag], now: float) -> None:
        for group in groups:
            for at in group.partitions:
                samples = self._samples.setdefault(subject(group, at), deque())
                samples.append(sample(at, now))
                while now - samples[0].at > WINDOW_SECONDS:
                    samples.popleft()

    def _judged(self, group: GroupLag) -> JudgedGroup:
        return JudgedGroup(
            group.group, group.state, group.members, tuple(self._judged_partition(group, at) for at in group.partitions)
        )

    def _judged_partition(self, group: GroupLag, at: PartitionLag) -> JudgedPartition:
        held = bool(at.member) or group.state.endswith("REBALANCING")
        judgement = judge(tuple(self._samples[subject(group, at)]), Unread(at.records, at.seconds), held=held)
        return JudgedPartition(at, judgement, _sentence(at, judgement))


def _sentence(at: PartitionLag, judged: Judgement) -> str:
    """What an operator should know of the partition, without its name."""
    waited = output.duration(judged.idle_seconds) + (" or longer" if judged.idle_longer else "")
    place = f"{at.committed:,}" if at.committed is not None else "its beginning"
    match judged.verdict:
        case Verdict.stopped:
            return f"nobody reads it: {records_wait(at.records)}, the oldest for {output.duration(at.seconds)}"
        case Verdict.stalled:
            return f"nothing committed for {waited} at {place}, held by {at.member or 'a group that is rebalancing'}"
        case Verdict.rewound:
            return f"was set back, reads again from {place}{_drained(judged)}"
        case Verdict.slow:
            return f"falls behind: {output.rate(judged.produced)} come, {output.rate(judged.consumed)} are taken"
    if not at.records:
        return "nothing waits"
    if judged.drain_seconds is not None:
        return f"catches up{_drained(judged)}"
    if judged.consumed:
        return "keeps up"
    return f"at work since {waited} on what follows {place}"


def records_wait(count: int) -> str:
    return f"{count:,} record waits" if count == 1 else f"{count:,} records wait"


def _drained(judged: Judgement) -> str:
    return f", drained in {output.duration(judged.drain_seconds)}" if judged.drain_seconds else ""
