"""The lag of groups over the last minutes, from what Kafka remembers: no watching is needed first.

Kafka's log of commits tells where a group stood at a time, and the records' timestamps tell where the partition ended
then. A few moments are enough to judge by (rules/lag.py): the window's first commit, its last one, and the two around
the last time that a group was set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.commits import Commit, commits
from headwater.connectors.kafka.lag import GroupLag, PartitionLag
from headwater.rules.lag import Sample

WINDOW_SECONDS = 300.0
"""Long enough to tell a stall from a long step, short enough that a busy group's commits are read in a moment."""

_MOMENTS = 8
"""Each costs a question to the brokers; a group that was set back more often is judged by the last times."""

Subject = tuple[str, str, int]
"""A group, a topic (both by the catalogue's names) and a partition."""


def subject(group: GroupLag, at: PartitionLag) -> Subject:
    return group.group, at.topic, at.partition


def sample(at: PartitionLag, now: float) -> Sample:
    """The measurement as a sample. Before its first commit a group stands at the first record that there is."""
    committed = at.end - at.records if at.committed is None else at.committed + at.lost
    return Sample(now, committed, at.end)


def lag_history(kafka: Kafka, measured: Iterable[GroupLag], now: float) -> dict[Subject, list[Sample]]:
    """Samples of each partition before ``now``, oldest first, for the partitions in which something is unread; those of
    groups of which Kafka's log cannot be read right now are left out.

    Raises Refused where this user may not read Kafka's internal topics.
    """
    behind = {group: [at for at in group.partitions if at.records] for group in measured}
    began = now - WINDOW_SECONDS
    known = commits(kafka, {kafka.group(group.group) for group, partitions in behind.items() if partitions}, began)
    found: dict[Subject, list[Sample]] = {}
    for group, partitions in behind.items():
        if (of_group := known.get(kafka.group(group.group))) is None:
            continue
        moments = {}
        for at in partitions:
            place = (kafka.physical(at.topic), at.partition)
            made = _until(of_group.get(place, []), at.committed)
            moments[place] = _telling(made) or [Commit(began, sample(at, now).committed)]
        samples = _with_ends(kafka, moments)
        found |= {subject(group, at): samples[kafka.physical(at.topic), at.partition] for at in partitions}
    return found


def _until(made: Sequence[Commit], committed: int | None) -> Sequence[Commit]:
    """Those up to the one that was measured: a busy group has committed again since, which is no step back."""
    for number in range(len(made), 0, -1):
        if made[number - 1].offset == committed:
            return made[:number]
    return []


def _telling(made: Sequence[Commit]) -> list[Commit]:
    """The commits that a verdict rests on."""
    chosen = {0, len(made) - 1} if made else set()
    for number in range(1, len(made)):
        if made[number].offset < made[number - 1].offset:
            chosen |= {number - 1, number}
    return [made[number] for number in sorted(chosen)][-_MOMENTS:]


def _with_ends(kafka: Kafka, moments: dict[offsets.Place, list[Commit]]) -> dict[offsets.Place, list[Sample]]:
    """One question for the first moment of every partition, one for the second, and so on."""
    found: dict[offsets.Place, list[Sample]] = {place: [] for place in moments}
    for turn in range(max((len(made) for made in moments.values()), default=0)):
        now = {place: made[turn] for place, made in moments.items() if turn < len(made)}
        ends = offsets.at_times(kafka, {place: int(commit.at * 1000) for place, commit in now.items()})
        for place, commit in now.items():
            found[place].append(Sample(commit.at, commit.offset, max(ends[place], commit.offset)))
    return found
