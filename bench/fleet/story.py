"""What became of each cast, as its hosts say on the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.connectors.kafka.offsets import Place
from headwater.rules.errors import NotFound, Transient, Unavailable
from headwater.schemas.cast_records import (
    CastEvent,
    CastEventKind,
    CastManifest,
    CastMember,
    CastProgress,
    CastState,
    ManifestKind,
    MemberState,
)
from headwater.schemas.codec import decode
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS

_TOPICS = (CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_EVENTS)
_POLL_SECONDS = 0.2
_LEADERS_SECONDS = 30.0


@dataclass(slots=True)
class Story:
    """One cast. Times are seconds since 1970."""

    name: str
    epoch: int
    announced_at: float
    sealed_at: float | None = None
    installed: dict[str, CastProgress] = field(default_factory=dict)
    """What each host said when it first had the file under its name."""
    progress: list[CastProgress] = field(default_factory=list)
    events: list[CastEvent] = field(default_factory=list)

    def seconds(self, hosts: Iterable[str]) -> float:
        """From the announcement until the last of the hosts had the file. Raises KeyError where one has not."""
        return max(self.installed[host].at_us for host in hosts) / 1e6 - self.announced_at

    def about(self, kind: CastEventKind) -> set[str]:
        """The hosts that such events name."""
        return {event.about_host for event in self.events if event.kind is kind and event.about_host}


class CastLog:
    """Follows what is said of all casts, from the beginning of the log. Not safe for threads."""

    def __init__(self, kafka: Kafka) -> None:
        self.casts: dict[int, Story] = {}
        self.members: dict[str, MemberState] = {}
        self.addresses: dict[str, str] = {}
        self.suspected: set[str] = set()
        """Hosts that somebody said to be dead at any time."""
        self._following = Following(kafka, _beginnings(kafka))

    def __enter__(self) -> CastLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._following.close()

    def newest(self, name: str) -> Story | None:
        """The newest cast of that name; None where there is none yet."""
        return max(
            (told for told in self.casts.values() if told.name == name), key=lambda told: told.epoch, default=None
        )

    def joined(self) -> set[str]:
        return {host for host, state in self.members.items() if state is MemberState.joined}

    def wait(self, done: Callable[[], bool], within_seconds: float, what: str, ended: Callable[[], str] = str) -> None:
        """Read on until it is so. Raises Unavailable when it takes too long, or as soon as ``ended`` says something."""
        deadline = time.monotonic() + within_seconds
        while not done():
            if why := ended():
                raise Unavailable(f"No {what}: {why}")
            if time.monotonic() > deadline:
                raise Unavailable(f"No {what} within {within_seconds:.0f} s.")
            self.read()

    def read(self) -> None:
        """What has come; waits a moment for it."""
        for message in self._following.read(_POLL_SECONDS):
            self._take(decode(message.value()), message.timestamp()[1] / 1000)

    def _take(self, record: object, at: float) -> None:
        if isinstance(record, CastMember):
            self.members[record.host] = record.state
            self.addresses[record.host] = record.address
            if record.state is MemberState.suspected:
                self.suspected.add(record.host)
        elif isinstance(record, CastManifest) and record.kind is ManifestKind.announced:
            self.casts[record.epoch] = Story(record.name, record.epoch, at)
        elif isinstance(record, CastManifest | CastProgress | CastEvent) and record.epoch in self.casts:
            told = self.casts[record.epoch]
            if isinstance(record, CastProgress):
                told.progress.append(record)
                if record.state is CastState.installed:
                    told.installed.setdefault(record.host, record)
            elif isinstance(record, CastEvent):
                told.events.append(record)
            elif record.kind is ManifestKind.sealed:
                told.sealed_at = at


def _beginnings(kafka: Kafka) -> dict[Place, int]:
    """A broker that has just made topics does not show or lead all of them yet."""
    deadline = time.monotonic() + _LEADERS_SECONDS
    while True:
        try:
            return offsets.beginnings(kafka, [at for topic in _TOPICS for at in offsets.partitions(kafka, topic.name)])
        except (NotFound, Transient):
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)
