"""Everything that the log says of one cast, folded: its manifest, the peers, their steps, the racks, what went wrong.

Times are those at which the log took a record, in microseconds since 1970: one clock for all hosts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import (
    CastEvent,
    CastManifest,
    CastMember,
    CastProgress,
    CastRack,
    CastState,
    ManifestKind,
)
from headwater.schemas.cast_view import View
from headwater.schemas.records import Record

_EVENTS = 1_000
"""The newest are kept: of a cast on a thousand hosts that goes badly there may be many more."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one host, and when the log took it."""

    said: CastProgress
    at_us: int


@dataclass(slots=True)
class CastHistory:
    """``steps`` by host: the one that installed the file, else the newest of the newest incarnation. ``racks``: the
    newest summary of each. ``replaced_by``: the epoch of a newer cast of its name."""

    manifest: Manifest
    announced_us: int
    view: View = field(default_factory=View)
    steps: dict[str, Step] = field(default_factory=dict)
    racks: dict[str, CastRack] = field(default_factory=dict)
    events: deque[CastEvent] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    replaced_by: int | None = None

    def take(self, record: Record, partition: int, offset: int, at_us: int) -> None:
        """The next record of any topic of casts. Raises BadRecord where it contradicts the manifest."""
        epoch = self.manifest.epoch
        match record:
            case CastMember():
                self.view = self.view.after([(record, partition, offset)])
            case CastManifest() if record.epoch == epoch:
                self.manifest = self.manifest.after(record)
            case CastManifest() if self._replaces(record):
                self.replaced_by = max(record.epoch, self.replaced_by or 0)
            case CastProgress() if record.epoch == epoch:
                self._step(Step(record, at_us))
            case CastRack() if record.epoch == epoch:
                self.racks[record.rack] = record
            case CastEvent() if record.epoch == epoch:
                self.events.append(record)

    def _replaces(self, record: CastManifest) -> bool:
        """The end of a cast that was never announced replaces nothing."""
        newer = record.epoch > self.manifest.epoch and record.name == self.manifest.name
        return newer and record.kind is ManifestKind.announced

    def _step(self, step: Step) -> None:
        known = self.steps.get(step.said.host)
        if known is None or (
            known.said.state is not CastState.installed and step.said.incarnation >= known.said.incarnation
        ):
            self.steps[step.said.host] = step
