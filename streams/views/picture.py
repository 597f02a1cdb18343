"""The views at a moment, from the telemetry before it: a pure function, the same for every order and repetition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.rules import fleet, lag
from headwater.rules.fleet import FORGET_SECONDS, Member
from headwater.rules.rates import BUCKET_SECONDS, Counts, Reading, counted
from headwater.schemas.records import GroupView, PartitionLag, Stage, StageView, Telemetry

_MICROSECONDS = 1_000_000
_MINUTE = 60 // BUCKET_SECONDS
_WINDOW = 5 * _MINUTE
_REPEATED = _WINDOW
"""After a crash the last seconds of the log are read again; rows for the views of these buckets are kept longer."""

CARRYING = tuple(stage for stage in Stage if stage is not Stage.other)


@dataclass(frozen=True, slots=True)
class Row:
    """What an incarnation last said in a bucket: a row of the views' table."""

    bucket: int
    said: Telemetry


@dataclass(frozen=True, slots=True)
class Picture:
    stages: tuple[StageView, ...]
    groups: tuple[GroupView, ...]


def newer(row: Telemetry | None, said: Telemetry) -> Telemetry:
    """Which of two words of an incarnation stays in the table."""
    return said if row is None or said.number > row.number else row


def picture(rows: Iterable[Row], end: int) -> Picture:
    """What the buckets before ``end`` show. Later ones change nothing, so a repetition says what was said before."""
    by_group: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.bucket < end:
            by_group[row.said.group][row.said.incarnation].append(row)
    groups = [_Group(name, list(starts.values()), end) for name, starts in sorted(by_group.items())]
    groups = [group for group in groups if end * BUCKET_SECONDS - group.heard < FORGET_SECONDS]
    stages = (_stage(stage, [group for group in groups if group.stage is stage], end) for stage in CARRYING)
    return Picture(tuple(stages), tuple(group.view() for group in groups))


def expired(rows: Iterable[Row], end: int) -> list[Row]:
    """Rows that no view needs any more, neither the one at ``end`` nor one that a crash lets repeat."""
    by_incarnation: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_incarnation[row.said.incarnation].append(row)
    gone = []
    for of_one in by_incarnation.values():
        newest_first = sorted(of_one, key=lambda row: -row.bucket)
        before = [row for row in newest_first if row.bucket < end - _WINDOW - _REPEATED]
        is_forgotten = (end - newest_first[0].bucket) * BUCKET_SECONDS > FORGET_SECONDS + _REPEATED * BUCKET_SECONDS
        gone += before if is_forgotten else before[1:]
    return gone


class _Group:
    """The rows of one group before ``end``, by incarnation."""

    def __init__(self, name: str, starts: Sequence[list[Row]], end: int) -> None:
        self.name = name
        self.end = end
        self._readings = [[_reading(row) for row in rows] for rows in starts]
        self._starts = starts
        last = [max(rows, key=lambda row: row.said.number) for rows in starts]
        members = {row.said.incarnation: _member(row) for row in last}
        self.heard = max(member.heard for member in members.values())
        self.stage = max(last, key=lambda row: row.said.sent_us).said.stage
        now = end * BUCKET_SECONDS
        self.health = fleet.health(members.values(), now)
        present = {member.incarnation for member in fleet.current(members.values(), now) if not member.is_silent(now)}
        self.speaking = [row.said for row in last if row.said.incarnation in present]

    @property
    def waiting(self) -> int:
        return sum(said.waiting for said in self.speaking)

    @property
    def oldest_us(self) -> int | None:
        return min((said.oldest_us for said in self.speaking if said.oldest_us is not None), default=None)

    def counted(self, buckets: int) -> Counts:
        """What was done in the last so many buckets."""
        return self._counted(self.end - buckets, self.end)

    def view(self) -> GroupView:
        minute, five_minutes = self.counted(_MINUTE), self.counted(_WINDOW)
        judged = self._judge()
        return GroupView(
            group=self.name,
            stage=self.stage,
            at_us=_microseconds(self.end),
            state=self.health.state,
            reason=self.health.reason,
            since_us=None if self.health.since is None else int(self.health.since * _MICROSECONDS),
            members=self.health.present,
            silent=self.health.silent,
            minute_records=_per_second(minute.records, _MINUTE),
            minute_bytes=_per_second(minute.bytes, _MINUTE),
            five_minutes_records=_per_second(five_minutes.records, _WINDOW),
            five_minutes_bytes=_per_second(five_minutes.bytes, _WINDOW),
            waiting=self.waiting,
            oldest_us=self.oldest_us,
            verdict=judged.verdict,
            drain_seconds=judged.drain_seconds,
            slowest=self._slowest(),
            retries=five_minutes.retries,
            dead_letters=five_minutes.dead_letters,
        )

    def _counted(self, first: int, end: int) -> Counts:
        return sum((counted(readings, first, end) for readings in self._readings), Counts())

    def _judge(self) -> lag.Judgement:
        """From a sample a minute: what was done since the window began, and what waited then."""
        first = self.end - _WINDOW
        samples = []
        for end in range(first, self.end + 1, _MINUTE):
            done = self._counted(first, end).records
            samples.append(lag.Sample(end * BUCKET_SECONDS, done, done + self._waiting_before(end)))
        samples[-1] = lag.Sample(samples[-1].at, samples[-1].committed, samples[-1].committed + self.waiting)
        behind = 0.0 if self.oldest_us is None else samples[-1].at - self.oldest_us / _MICROSECONDS
        return lag.judge(samples, lag.Unread(self.waiting, max(0.0, behind)), held=bool(self.speaking))

    def _waiting_before(self, end: int) -> int:
        """What the members that spoke in the minute before ``end`` said."""
        last = [max((row for row in rows if row.bucket < end), key=_number, default=None) for rows in self._starts]
        return sum(row.said.waiting for row in last if row is not None and row.bucket >= end - _MINUTE)

    def _slowest(self) -> str:
        lags = [partition for said in self.speaking for partition in said.lags]
        worst: PartitionLag | None = max(lags, key=lambda at: (at.seconds, at.records), default=None)
        return "" if worst is None else f"{worst.topic}/{worst.partition}"


def _stage(stage: Stage, groups: Sequence[_Group], end: int) -> StageView:
    minute = sum((group.counted(_MINUTE) for group in groups), Counts())
    five_minutes = sum((group.counted(_WINDOW) for group in groups), Counts())
    return StageView(
        stage=stage,
        at_us=_microseconds(end),
        members=sum(group.health.present for group in groups),
        minute_records=_per_second(minute.records, _MINUTE),
        minute_bytes=_per_second(minute.bytes, _MINUTE),
        five_minutes_records=_per_second(five_minutes.records, _WINDOW),
        five_minutes_bytes=_per_second(five_minutes.bytes, _WINDOW),
        waiting=sum(group.waiting for group in groups),
        oldest_us=min((group.oldest_us for group in groups if group.oldest_us is not None), default=None),
    )


def _member(row: Row) -> Member:
    said = row.said
    return Member(
        host=said.host,
        incarnation=said.incarnation,
        started=said.started_us / _MICROSECONDS,
        spoke=said.sent_us / _MICROSECONDS,
        heard=(row.bucket + 1) * BUCKET_SECONDS,
        state=said.state,
        reason=said.reason,
    )


def _reading(row: Row) -> Reading:
    said = row.said
    counts = Counts(said.records, said.content_bytes, said.retries, said.dead_letters)
    return Reading(row.bucket, (said.sent_us - said.started_us) / _MICROSECONDS, counts)


def _number(row: Row) -> int:
    return row.said.number


def _per_second(count: int, buckets: int) -> float:
    return count / (buckets * BUCKET_SECONDS)


def _microseconds(bucket: int) -> int:
    return bucket * BUCKET_SECONDS * _MICROSECONDS
