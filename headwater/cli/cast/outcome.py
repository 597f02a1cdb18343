"""What became of a cast: each target, and the whole, judged from what the log says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headwater.rules.cast.bounds import Fleet, binding, bounds, goodput_share
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import RACK
from headwater.schemas.cast_records import CastState


class TargetState(StrEnum):
    """From the best to the worst. ``complete``: it has every chunk, and waits for the seal or installs."""

    installed = "installed"
    complete = "complete"
    receiving = "receiving"
    waiting = "waiting"
    missing = "missing"
    refused = "refused"
    failed = "failed"
    lost = "lost"

    @property
    def final(self) -> bool:
        """Nothing more is to be expected, unless its peer starts anew."""
        return self in (TargetState.installed, TargetState.refused, TargetState.failed, TargetState.lost)


class Status(StrEnum):
    complete = "complete"
    partial = "partial"
    running = "running"
    aborted = "aborted"

    @property
    def exit_code(self) -> int:
        return {"complete": 0, "partial": 3, "running": 75, "aborted": 1}[self]


@dataclass(frozen=True, slots=True)
class Target:
    """One host that shall have the file. ``root`` is what it verified; ``seconds`` it took, by its own clock;
    ``finished_us`` is when the log took the word that it installed."""

    host: str
    rack: str
    state: TargetState
    incarnation: int | None = None
    root: bytes | None = None
    chunks: int = 0
    seconds: float | None = None
    received_bytes: int = 0
    outside_bytes: int = 0
    finished_us: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Floor:
    """No way of sending it could have been faster than ``seconds``, by links of ``nic`` bytes of payload a second."""

    seconds: float
    resource: str
    nic: float
    mtu: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``seconds``: from the announcement to the last installation, or to now while it runs. ``copies_per_rack``: what
    entered racks, as a multiple of the file for each rack."""

    status: Status
    reason: str
    targets: tuple[Target, ...]
    seconds: float
    copies_per_rack: float | None

    @property
    def installed(self) -> int:
        """Targets that have it."""
        return sum(target.state is TargetState.installed for target in self.targets)


def outcome(history: CastHistory, now_us: int) -> Outcome:
    found = tuple(sorted(_targets(history), key=lambda target: (target.rack, target.host)))
    status, reason = _status(history, found, now_us)
    ends = [target.finished_us for target in found if target.finished_us is not None]
    end_us = now_us if status is Status.running else max(ends, default=history.announced_us)
    return Outcome(
        status=status,
        reason=reason,
        targets=found,
        seconds=max(0, end_us - history.announced_us) / 1_000_000,
        copies_per_rack=_copies(found, history.manifest.chunks.size),
    )


def floor_of(
    history: CastHistory, found: Outcome, nic: float, oversubscription: float, mtu: int | None
) -> Floor | None:
    """None where there is nobody to send to. With ``mtu``, ``nic`` counts the wire's bits, headers too."""
    hosts = len(found.targets)
    if not hosts:
        return None
    payload = nic if mtu is None else nic * goodput_share(mtu)
    fleet = Fleet(
        hosts=hosts,
        racks=len({target.rack for target in found.targets}),
        host_bytes_per_second=payload,
        origin_bytes_per_second=payload,
        oversubscription=oversubscription,
    )
    binds = binding(bounds(history.manifest.chunks.size, fleet))[0]
    return Floor(binds.seconds, binds.resource, payload, mtu)


def _targets(history: CastHistory) -> Iterable[Target]:
    manifest, hosts = history.manifest, history.view.hosts
    known = {name for name, host in hosts.items() if manifest.names(host) and (host.live or host.suspected)}
    told = {target for target in manifest.targets if not target.startswith(RACK)}
    for name in (known | told | history.steps.keys()) - {manifest.origin}:
        yield _target(history, name)


def _target(history: CastHistory, name: str) -> Target:
    host, step = history.view.hosts.get(name), history.steps.get(name)
    present = host is not None and host.live
    if step is None:
        state = TargetState.waiting if present else TargetState.missing if host is None else TargetState.lost
        return Target(name, host.rack if host else "", state, reason=_absence(state))
    said = step.said
    state, reason = _state(said.state, present), said.reason
    if state is TargetState.installed and history.manifest.root not in (None, said.root):
        state, reason = TargetState.failed, "it installed a file with another root"
    return Target(
        host=name,
        rack=said.rack,
        state=state,
        incarnation=said.incarnation,
        root=said.root,
        chunks=said.chunks,
        seconds=said.seconds,
        received_bytes=said.received_bytes,
        outside_bytes=said.outside_bytes,
        finished_us=step.at_us if state is TargetState.installed else None,
        reason=reason or _absence(state),
    )


def _state(said: CastState, present: bool) -> TargetState:
    match said:
        case CastState.installed:
            return TargetState.installed
        case CastState.refused:
            return TargetState.refused
        case CastState.failed:
            return TargetState.failed
        case _ if not present or said is CastState.left:
            return TargetState.lost
        case CastState.complete:
            return TargetState.complete
        case _:
            return TargetState.receiving


def _absence(state: TargetState) -> str:
    return {
        TargetState.lost: "its peer left, or does not answer any more",
        TargetState.missing: "no peer of that name ever joined",
        TargetState.waiting: "it has not begun",
    }.get(state, "")


def _status(history: CastHistory, targets: tuple[Target, ...], now_us: int) -> tuple[Status, str]:
    manifest = history.manifest
    counts = Counter(target.state for target in targets)
    others = len(targets) - counts[TargetState.installed]
    if manifest.root is not None and targets and not others:
        return Status.complete, ""
    if manifest.ended:
        return Status.aborted, manifest.reason or f"it was {manifest.state}"
    if history.replaced_by is not None:
        return Status.partial, f"cast {history.replaced_by} replaced it before all had it"
    if manifest.expired(now_us):
        return Status.partial, "it expired before all had it"
    if manifest.root is not None and targets and all(target.state.final for target in targets):
        return Status.partial, f"{others:,} of {len(targets):,} hosts do not have it"
    return Status.running, ""


def _copies(targets: tuple[Target, ...], size: int) -> float | None:
    racks = {target.rack for target in targets if target.received_bytes}
    if not racks or not size:
        return None
    return sum(target.outside_bytes for target in targets) / (size * len(racks))
