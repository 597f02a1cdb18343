"""The catalogue of topics: name, record, partitions, retention. ``headwater topics apply`` makes a cluster match it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headwater.schemas import records
from headwater.schemas.records import Record

FOR_EVER = None


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``retention`` of None keeps records for ever. ``key`` says what orders records, for people."""

    name: str
    record: type[Record]
    key: str
    partitions: int
    retention: timedelta | None = timedelta(days=30)


SYNC_OBJECTS = Topic("sync.objects", records.ObjectStored, "content hash", 12)
SYNC_OBJECTS_LARGE = Topic("sync.objects.large", records.ObjectStored, "content hash", 12)
SYNC_VERIFIED = Topic("sync.verified", records.ObjectVerified, "content hash", 12)
SYNC_REQUESTS = Topic("sync.requests", records.SyncRequest, "source", 6)
DATASET_VERSIONS = Topic("dataset.versions", records.DatasetVersion, "dataset", 1, FOR_EVER)
DEAD_LETTERS = Topic("dead.letters", records.DeadLetter, "topic/partition/offset", 3)


def fs_changes(site: str) -> Topic:
    return Topic(f"fs.changes.{site}", records.FileChange, "source + path", 6)


def fs_parts(site: str) -> Topic:
    return Topic(f"fs.parts.{site}", records.FilePart, "content hash", 6)


def catalogue(sites: tuple[str, ...]) -> tuple[Topic, ...]:
    """Every topic that a cluster with these sites needs."""
    return (
        *(make(site) for site in sites for make in (fs_changes, fs_parts)),
        SYNC_OBJECTS,
        SYNC_OBJECTS_LARGE,
        SYNC_VERIFIED,
        SYNC_REQUESTS,
        DATASET_VERSIONS,
        DEAD_LETTERS,
    )
