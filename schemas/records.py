"""The typed records of the log: one frozen class per Avro schema, field for field (the .avsc says what each means)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headwater.rules.identity import Clock, change_key


class ChangeKind(StrEnum):
    unknown = "unknown"
    created = "created"
    modified = "modified"
    renamed = "renamed"
    deleted = "deleted"
    metadata = "metadata"
    checkpoint = "checkpoint"
    excepted = "excepted"
    cleared = "cleared"


class FileType(StrEnum):
    other = "other"
    regular = "regular"
    symlink = "symlink"


class Guarantee(StrEnum):
    weak = "weak"
    strong = "strong"


class Verdict(StrEnum):
    unknown = "unknown"
    verified = "verified"
    condemned = "condemned"


class VerifyMode(StrEnum):
    unknown = "unknown"
    full = "full"
    sample = "sample"


class RequestReason(StrEnum):
    unknown = "unknown"
    torn = "torn"
    condemned = "condemned"
    operator = "operator"


class Stage(StrEnum):
    """A file's way, stage by stage; ``other`` carries nothing."""

    other = "other"
    found = "found"
    uploaded = "uploaded"
    verified = "verified"
    committed = "committed"


class Record:
    """Base of all records: ``schema_name`` names the .avsc file, ``key()`` is the Kafka key that orders the subject."""

    __slots__ = ()
    schema_name: ClassVar[str]

    def key(self) -> bytes:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange(Record):
    schema_name: ClassVar[str] = "file_change"
    source: str
    path: bytes
    display: str
    epoch: int
    seq: int
    kind: ChangeKind
    file_type: FileType = FileType.other
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    hash: bytes | None = None
    parts: int = 0
    link_target: bytes | None = None
    from_path: bytes | None = None
    reason: str | None = None
    guarantee: Guarantee = Guarantee.weak

    @property
    def clock(self) -> Clock:
        return Clock(self.epoch, self.seq)

    def key(self) -> bytes:
        return change_key(self.source, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart(Record):
    schema_name: ClassVar[str] = "file_part"
    source: str
    path: bytes
    display: str
    epoch: int
    seq: int
    hash: bytes
    size: int
    index: int
    count: int
    offset: int
    length: int
    part_hash: bytes

    @property
    def clock(self) -> Clock:
        return Clock(self.epoch, self.seq)

    def key(self) -> bytes:
        return self.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStored(Record):
    schema_name: ClassVar[str] = "object_stored"
    hash: bytes
    generation: int
    size: int
    source: str
    parts: int = 0

    def key(self) -> bytes:
        return self.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVerified(Record):
    schema_name: ClassVar[str] = "object_verified"
    hash: bytes
    generation: int
    size: int
    verdict: Verdict
    mode: VerifyMode
    detail: str = ""

    def key(self) -> bytes:
        return self.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest(Record):
    schema_name: ClassVar[str] = "sync_request"
    source: str
    path: bytes
    display: str
    epoch: int
    seq: int
    reason: RequestReason
    detail: str = ""

    def key(self) -> bytes:
        return self.source.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVersion(Record):
    schema_name: ClassVar[str] = "dataset_version"
    dataset: str
    version: int
    parent: int | None
    epoch: int
    commit_id: str
    manifest_hash: bytes
    added: int
    changed: int
    removed: int
    files: int
    content_bytes: int
    exceptions: int

    def key(self) -> bytes:
        return self.dataset.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Record):
    schema_name: ClassVar[str] = "dead_letter"
    topic: str
    partition: int
    offset: int
    group: str
    original_key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    error: str
    message: str
    stack: str
    redrives: int = 0
    cut_bytes: int = 0

    def key(self) -> bytes:
        return f"{self.topic}/{self.partition}/{self.offset}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    topic: str
    partition: int
    records: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry(Record):
    schema_name: ClassVar[str] = "telemetry"
    group: str
    stage: Stage
    host: str
    incarnation: str
    number: int
    started_us: int
    sent_us: int
    state: str
    reason: str
    records: int
    content_bytes: int
    retries: int
    dead_letters: int
    waiting: int
    oldest_us: int | None = None
    lags: tuple[PartitionLag, ...] = ()

    def key(self) -> bytes:
        return self.group.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView(Record):
    schema_name: ClassVar[str] = "stage_view"
    stage: Stage
    at_us: int
    members: int
    minute_records: float
    minute_bytes: float
    five_minutes_records: float
    five_minutes_bytes: float
    waiting: int
    oldest_us: int | None = None

    def key(self) -> bytes:
        return self.stage.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView(Record):
    schema_name: ClassVar[str] = "group_view"
    group: str
    stage: Stage
    at_us: int
    state: str
    reason: str
    since_us: int | None = None
    members: int
    silent: int
    minute_records: float
    minute_bytes: float
    five_minutes_records: float
    five_minutes_bytes: float
    waiting: int
    oldest_us: int | None = None
    verdict: str
    drain_seconds: float | None = None
    slowest: str
    retries: int
    dead_letters: int

    def key(self) -> bytes:
        return self.group.encode()


ALL: tuple[type[Record], ...] = (
    DatasetVersion,
    DeadLetter,
    FileChange,
    FilePart,
    GroupView,
    ObjectStored,
    ObjectVerified,
    StageView,
    SyncRequest,
    Telemetry,
)
