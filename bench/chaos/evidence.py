"""What the checker judges: the source, its journal, and what log, catalog, lakeFS and S3 say, each in its own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.journal import Path, State
from chaos.traffic import Request
from headwater.schemas.records import DatasetVersion, DeadLetter, FileChange

Clock = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Held:
    """One path as a version holds it: its state, the generation of its object, and the clock of the state."""

    state: State
    generation: int | None
    clock: Clock
    mtime_ns: int
    mode: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What one version changes of one path: ``held`` None removes it."""

    path: Path
    place: str | None
    """Its path in lakeFS; None where the account does not say."""
    clock: Clock
    held: Held | None


@dataclass(frozen=True, slots=True)
class Version:
    """A published version by its three accounts: the catalog's delta, the manifest's, and lakeFS's listing."""

    number: int
    parent: int | None
    commit: str
    excepted: frozenset[Path]
    """Paths that its cut names as exceptions."""
    catalog: Sequence[Delta]
    manifest: Sequence[Delta]
    listing: Mapping[str, str]
    """Place in lakeFS → key of the object."""


@dataclass(frozen=True, slots=True)
class Shown:
    """From ``at`` on the catalog showed a part (None: a whole object) as finished, or as not so (``finished``)."""

    key: str
    part: int | None
    at: float
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """A process was stopped at ``began`` and went on at ``ended``."""

    member: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class OnDisk:
    state: State
    mtime_ns: int
    mode: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """``objects`` are the keys below objects/ in S3 with the BLAKE3 of their bytes; ``verified`` those that the catalog
    calls so. ``commits`` are the commits of main, newest first, with the version that each says it is."""

    source: Mapping[Path, OnDisk]
    journal: Mapping[Path, Sequence[State | None]]
    versions: Sequence[Version]
    announced: Sequence[DatasetVersion] = ()
    commits: Sequence[tuple[str, str]] = ()
    objects: Mapping[str, bytes] = field(default_factory=dict)
    verified: frozenset[str] = frozenset()
    changes: Sequence[FileChange] = ()
    dead: Sequence[DeadLetter] = ()
    requests: Sequence[Request] = ()
    shown: Sequence[Shown] = ()
    pauses: Sequence[Pause] = ()
