"""The typed records of broadcast, one frozen class per Avro schema: the .avsc says what each field means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headwater.schemas.records import Record


class ManifestKind(StrEnum):
    unknown = "unknown"
    announced = "announced"
    hashes = "hashes"
    copied = "copied"
    sealed = "sealed"
    aborted = "aborted"
    removed = "removed"
    limited = "limited"


class MemberState(StrEnum):
    unknown = "unknown"
    joined = "joined"
    left = "left"
    suspected = "suspected"


class CastState(StrEnum):
    unknown = "unknown"
    started = "started"
    resumed = "resumed"
    complete = "complete"
    installed = "installed"
    refused = "refused"
    failed = "failed"
    left = "left"


class CastEventKind(StrEnum):
    unknown = "unknown"
    blamed = "blamed"
    stalled = "stalled"
    slow = "slow"
    suspected = "suspected"
    hedged = "hedged"
    source_changed = "source_changed"
    refused = "refused"
    missing = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CastManifest(Record):
    schema_name: ClassVar[str] = "cast_manifest"
    name: str
    epoch: int
    kind: ManifestKind
    file_name: str | None = None
    size: int | None = None
    chunk_bytes: int | None = None
    mtime_ns: int | None = None
    origin: str | None = None
    targets: tuple[str, ...] = ()
    expires_us: int | None = None
    first_chunk: int | None = None
    hashes: bytes | None = None
    url: str | None = None
    root: bytes | None = None
    host: str | None = None
    rack: str | None = None
    bytes_per_second: int | None = None
    reason: str

    def key(self) -> bytes:
        return str(self.epoch).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastMember(Record):
    schema_name: ClassVar[str] = "cast_member"
    host: str
    incarnation: int
    rack: str
    address: str
    state: MemberState
    only: str | None = None
    said_by: str
    reason: str
    at_us: int

    def key(self) -> bytes:
        return self.host.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastAvailability(Record):
    schema_name: ClassVar[str] = "cast_availability"
    epoch: int
    number: int
    incarnation: int
    sequence: int
    base: int | None = None
    bits: bytes
    chunks: int
    bytes_per_second: int

    def key(self) -> bytes:
        return f"{self.epoch}/{self.number}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastRack(Record):
    schema_name: ClassVar[str] = "cast_rack"
    epoch: int
    rack: str
    at_us: int
    view: int
    hosts: int
    complete: int
    installed: int
    least: int
    median: int
    most: int
    bits: bytes
    bytes_per_second: int
    slow: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def key(self) -> bytes:
        return f"{self.epoch}/{self.rack}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastProgress(Record):
    schema_name: ClassVar[str] = "cast_progress"
    epoch: int
    name: str
    host: str
    incarnation: int
    rack: str
    state: CastState
    chunks: int
    received_bytes: int
    outside_bytes: int
    seconds: float
    root: bytes | None = None
    reason: str
    at_us: int

    def key(self) -> bytes:
        return f"{self.epoch}/{self.host}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CastEvent(Record):
    schema_name: ClassVar[str] = "cast_event"
    epoch: int
    host: str
    incarnation: int
    kind: CastEventKind
    about_host: str | None = None
    about_incarnation: int | None = None
    chunks: tuple[int, ...] = ()
    reason: str
    at_us: int

    def key(self) -> bytes:
        return str(self.epoch).encode()


ALL: tuple[type[Record], ...] = (
    CastManifest,
    CastMember,
    CastAvailability,
    CastRack,
    CastProgress,
    CastEvent,
)
