"""How a group is, from what its members last said: which of them live, and the worst that any of them says.

A member that says nothing for ``SILENT_SECONDS`` is silent. One start of a process that came after it on its host
replaces it; else it stays silent until ``FORGET_SECONDS`` after its last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

SILENT_SECONDS = 30.0
"""Six words missed: as long as an agent's silence that lets another take its source over."""

FORGET_SECONDS = 3600.0
"""A host that is gone for good stops being reported after an hour; by then somebody was woken."""


class GroupState(StrEnum):
    """From the best to the worst."""

    running = "running"
    paused = "paused"
    starting = "starting"
    draining = "draining"
    stopped = "stopped"
    degraded = "degraded"
    silent = "silent"

    @property
    def severity(self) -> int:
        return list(GroupState).index(self)


@dataclass(frozen=True, slots=True)
class Member:
    """One start of a process. ``started`` and ``spoke``: its first moment and its last word, by its host's clock;
    ``heard``: that word by the log's clock. All in seconds since 1970."""

    host: str
    incarnation: str
    started: float
    spoke: float
    heard: float
    state: str
    reason: str = ""

    @property
    def stopped(self) -> bool:
        """It said goodbye."""
        return self.state == GroupState.stopped

    def is_silent(self, now: float) -> bool:
        return not self.stopped and now - self.heard >= SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """``since``: when it was last heard of, where it is silent or stopped. ``present``: members that should be there,
    of which ``silent`` are silent."""

    state: GroupState
    reason: str
    since: float | None
    present: int
    silent: int


def current(members: Iterable[Member], now: float) -> list[Member]:
    """Those that should be there: neither stopped nor replaced nor forgotten; the silent ones are among them."""
    known = [member for member in members if now - member.heard < FORGET_SECONDS]
    gone = {member.incarnation for member in known if member.stopped} | _replaced(known, now)
    return [member for member in known if member.incarnation not in gone]


def health(members: Iterable[Member], now: float) -> GroupHealth:
    """``members``: at least one."""
    members = list(members)
    present = current(members, now)
    silent = [member for member in present if member.is_silent(now)]
    speaking = [member for member in present if not member.is_silent(now)]
    if not present:
        return GroupHealth(GroupState.stopped, "", max(member.heard for member in members), 0, 0)
    if not speaking:
        since = max(member.heard for member in silent)
        return GroupHealth(GroupState.silent, f"nothing heard from {_hosts(silent)}", since, len(present), len(silent))
    worst = max(speaking, key=lambda member: (_state(member).severity, member.incarnation))
    if silent:
        reason = f"{len(silent)} of {len(present)} members silent, on {_hosts(silent)}"
        if _state(worst) is GroupState.degraded:
            reason += f"; {worst.reason or worst.state}"
        return GroupHealth(GroupState.degraded, reason, None, len(present), len(silent))
    return GroupHealth(_state(worst), worst.reason, None, len(present), 0)


def _state(member: Member) -> GroupState:
    """A word that this release does not know, such as halted, is trouble."""
    return GroupState(member.state) if member.state in list(GroupState) else GroupState.degraded


def _replaced(members: Sequence[Member], now: float) -> set[str]:
    """Each start replaces one member of its host that had spoken its last word before: the one silent for longest."""
    silent = sorted(
        (member for member in members if member.is_silent(now)), key=lambda one: (one.spoke, one.incarnation)
    )
    replaced: set[str] = set()
    for later in sorted(members, key=lambda one: (one.started, one.incarnation)):
        for earlier in silent:
            if earlier.incarnation not in replaced and _followed(earlier, later):
                replaced.add(earlier.incarnation)
                break
    return replaced


def _followed(earlier: Member, later: Member) -> bool:
    return earlier.host == later.host and earlier.incarnation != later.incarnation and later.started >= earlier.spoke


def _hosts(members: Iterable[Member]) -> str:
    return ", ".join(sorted({member.host for member in members}))
