"""The gossip of casts: what each rack has together, once a second, for the other racks and for people.

reads   cast.availability as the group ``gossip``; cast.manifests, cast.members, cast.progress, cast.events in full
writes  cast.racks: of each live cast and rack the newest summary counts
effect  other racks see what a rack has, its slow hosts are spared, its silent ones named; nothing waits for it
safe    because a summary is made of what the log says up to its moment, whoever makes it and however often. A member
        that died is replaced by one that reads back to where every peer said all that it has: decisions/250
"""

from __future__ import annotations

import time
from contextlib import closing
from random import Random
from threading import Event

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError, Refused, Transient
from headwater.schemas.topics import (
    CAST_AVAILABILITY,
    CAST_EVENTS,
    CAST_MANIFESTS,
    CAST_MEMBERS,
    CAST_PROGRESS,
    CAST_RACKS,
)
from headwater.streams.gossip.facts import Facts
from headwater.streams.gossip.fleet import Fleet
from headwater.streams.gossip.group import GROUP, AvailabilityGroup
from headwater.streams.gossip.summaries import Export, Summaries
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.state import MemberState, Phase, StateBoard

log = logs.logger()

EVERY_SECONDS = 1.0
"""As often as peers speak."""
_READ_SECONDS = 0.1
_QUIET_SECONDS = 2.0
"""Less than what makes a host silent: where nobody speaks, the log is asked first whether it is there."""
_PROBE_SECONDS = 1.0
_RETURN_SECONDS = 6.0
"""Peers find a broker that came back within some seconds; their words bear the time at which they arrive."""
_LAG_EVERY_SECONDS = 5.0
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 0.2, 15.0
_KAFKA = "kafka"


class Gossip:
    """``run`` it in one thread; ``stop`` and ``state`` are safe from any."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._board = StateBoard(GROUP, time.time)
        self._stopping = Event()
        self._random = Random()
        self._failures = 0
        self._believed_at = 0.0
        self._held: frozenset[int] = frozenset()
        metrics.GROUP_RECORDS.labels(GROUP)

    def state(self) -> MemberState:
        return self._board.read("", tuple((CAST_AVAILABILITY.name, partition) for partition in sorted(self._held)))

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Serve until ``stop``. Outages are waited for; raises TopicMismatch or BadSettings for what a person must
        mend, and at the start also Unavailable or Refused, where the cluster was never seen."""
        topics = (CAST_AVAILABILITY, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_EVENTS, CAST_RACKS)
        verify_topics(self._kafka, topics)
        while not self._stopping.is_set():
            try:
                with (
                    closing(Facts(self._kafka)) as facts,
                    closing(AvailabilityGroup(self._kafka)) as group,
                    closing(Summaries(self._kafka)) as summaries,
                ):
                    self._serve(Fleet(facts, group), summaries)
            except (Transient, Refused) as error:
                self._start_over_after(error)
        self._board.enter(Phase.stopped)

    def _serve(self, fleet: Fleet, summaries: Summaries) -> None:
        """The main loop."""
        self._board.enter(Phase.running)
        export = Export()
        due, lag_due = time.monotonic(), time.monotonic()
        while not self._stopping.is_set():
            fleet.hear(_READ_SECONDS)
            self._held = fleet.group.held
            now = time.monotonic()
            if now < due:
                continue
            due = max(due + EVERY_SECONDS, now)
            if self._may_tell(fleet.group, now):
                at_us = fleet.group.reached_us(time.time_ns() // 1_000)
                shown = list(fleet.summaries(at_us))
                summaries.write((rack for _, rack in shown), now)
                export.show(shown, at_us)
                fleet.group.commit()
                self._failures = 0
                self._judge(summaries)
            if now >= lag_due:
                lag_due = now + _LAG_EVERY_SECONDS
                fleet.group.show_lag(time.time())
        self._board.enter(Phase.draining)
        export.show((), time.time_ns() // 1_000)

    def _judge(self, summaries: Summaries) -> None:
        if summaries.trouble:
            self._board.degrade(_KAFKA, f"Summaries are not written: {summaries.trouble}.")
        else:
            self._board.recover(_KAFKA)

    def _may_tell(self, group: AvailabilityGroup, now: float) -> bool:
        """Not before all is known, nor while the log is away or came back a moment ago: all would look silent."""
        quiet = group.quiet_seconds(now)
        if quiet >= _QUIET_SECONDS or self._kafka.silent_since() is not None:
            if group.broker_answers(_PROBE_SECONDS):
                self._kafka.answered()
                self._board.recover(_KAFKA)
            else:
                where = self._kafka.config.bootstrap_servers
                self._board.degrade(_KAFKA, f"Kafka at {where} does not answer, {quiet:.0f} s after the last record.")
                self._believed_at = now + _RETURN_SECONDS
        return now >= self._believed_at and group.settled()

    def _start_over_after(self, error: HeadwaterError) -> None:
        self._board.degrade(_KAFKA, str(error))
        log.warning("gossip.starting_over", error=str(error))
        pause = full_jitter(
            self._failures, base_seconds=_RETRY_BASE_SECONDS, most_seconds=_RETRY_MOST_SECONDS, random=self._random
        )
        self._failures += 1
        self._stopping.wait(pause)
