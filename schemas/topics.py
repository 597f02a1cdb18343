"""The catalogue of topics: name, record, partitions, retention. ``headwater topics apply`` makes a cluster match it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headwater.schemas import cast_records, job_records, records
from headwater.schemas.records import Record

FOR_EVER = None


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``retention`` of None keeps records for ever. ``key`` says what orders records, for people.

    ``compacted``: of each key the newest record is enough; older ones may go before their time. ``log_time``: a record
    bears the time at which the log took it, not the one that its producer's clock showed. ``compression``: how the
    brokers keep records, by default as their producer packed them.
    """

    name: str
    record: type[Record]
    key: str
    partitions: int
    retention: timedelta | None = timedelta(days=30)
    compacted: bool = False
    log_time: bool = False
    compression: str = "producer"


SYNC_OBJECTS = Topic("sync.objects", records.ObjectStored, "content hash", 12)
SYNC_OBJECTS_LARGE = Topic("sync.objects.large", records.ObjectStored, "content hash", 12)
SYNC_VERIFIED = Topic("sync.verified", records.ObjectVerified, "content hash", 12)
SYNC_REQUESTS = Topic("sync.requests", records.SyncRequest, "source", 6)
DATASET_VERSIONS = Topic("dataset.versions", records.DatasetVersion, "dataset", 1, FOR_EVER)
DEAD_LETTERS = Topic("dead.letters", records.DeadLetter, "topic/partition/offset", 3)
FLEET_TELEMETRY = Topic(
    "fleet.telemetry", records.Telemetry, "group", 1, timedelta(days=1), log_time=True, compression="gzip"
)
"""One partition, so that one reader sees the whole fleet in one order of time; gzip, which that reader's client always
knows, whatever the producers are set to: docs/decisions/110."""
VIEWS_SAMPLES = Topic(
    "views-samples-changelog", records.Telemetry, "incarnation/bucket", 1, timedelta(days=1), compacted=True
)
"""The table of the views. Faust derives the name; what is a day old was forgotten long before."""
VIEWS_STAGES = Topic("views.stages", records.StageView, "stage", 1, timedelta(days=1), compacted=True)
VIEWS_GROUPS = Topic("views.groups", records.GroupView, "group", 1, timedelta(days=1), compacted=True)
CAST_MANIFESTS = Topic("cast.manifests", cast_records.CastManifest, "epoch", 1, log_time=True)
"""The topics of casts bear the log's time: no clock of a thousand hosts decides who is silent or how long it took."""
CAST_MEMBERS = Topic("cast.members", cast_records.CastMember, "host", 64, FOR_EVER, compacted=True, log_time=True)
"""The partition is that of the rack's name, for this topic and for cast.availability: a peer reads its rack's."""
CAST_AVAILABILITY = Topic(
    "cast.availability", cast_records.CastAvailability, "epoch/number", 64, timedelta(hours=6), log_time=True
)
CAST_RACKS = Topic("cast.racks", cast_records.CastRack, "epoch/rack", 1, timedelta(days=1), compacted=True)
CAST_PROGRESS = Topic("cast.progress", cast_records.CastProgress, "epoch/host", 1, log_time=True)
CAST_EVENTS = Topic("cast.events", cast_records.CastEvent, "epoch", 1, log_time=True)

JOBS_REQUESTED = Topic("jobs.requested", job_records.JobRequested, "job", 12)
"""The partition is that of the pool's name, here and for jobs.events: a pool's scheduler reads one of each."""
JOBS_EVENTS = Topic("jobs.events", job_records.JobEvent, "job", 12)
JOBS_GRANTS = Topic("jobs.grants", job_records.JobGrant, "worker", 32, timedelta(days=1))
"""The partition is that of the worker's name: a worker reads one, from its end."""


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
        FLEET_TELEMETRY,
        VIEWS_SAMPLES,
        VIEWS_STAGES,
        VIEWS_GROUPS,
        CAST_MANIFESTS,
        CAST_MEMBERS,
        CAST_AVAILABILITY,
        CAST_RACKS,
        CAST_PROGRESS,
        CAST_EVENTS,
        JOBS_REQUESTED,
        JOBS_EVENTS,
        JOBS_GRANTS,
    )
