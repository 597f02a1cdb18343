"""Every metric that a headwater process exports, each with the sentence that tells an operator what to read from it.

One section a component. A metric that is not here does not exist: dashboards and alerts are tested against ``ALL``.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

ALL: list[MetricWrapperBase] = []


def counter(name: str, meaning: str, *labels: str) -> Counter:
    metric = Counter(f"headwater_{name}", meaning, labels)
    ALL.append(metric)
    return metric


def gauge(name: str, meaning: str, *labels: str) -> Gauge:
    metric = Gauge(f"headwater_{name}", meaning, labels)
    ALL.append(metric)
    return metric


def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
    metric = Histogram(f"headwater_{name}", meaning, labels, buckets=buckets)
    ALL.append(metric)
    return metric


SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets for durations from a millisecond to five minutes."""


# Every process

STATE_FREE_BYTES = gauge(
    "state_free_bytes", "Bytes free where the state folder is: indexes, locks and logs. At 0 the agents stop."
)
STATE_SIZE_BYTES = gauge("state_size_bytes", "Size of the filesystem where the state folder is.")

# Consumer groups

GROUP_RECORDS = counter(
    "group_records", "Records whose outputs and offsets are committed; its rate is the group's speed.", "group"
)
GROUP_BATCH_SECONDS = histogram(
    "group_batch_seconds",
    "From the start of a batch's step to its commit. Far above the step's own time: Kafka is slow.",
    "group",
    buckets=SECONDS,
)
GROUP_RECORD_SECONDS = histogram(
    "group_record_seconds",
    "Mean time of a record in its batch's step, observed once a batch. Times the rate, it says how busy the step is.",
    "group",
    buckets=(0.00001, 0.0001, *SECONDS),
)
GROUP_LAG_RECORDS = gauge(
    "group_lag_records", "Records that wait behind this member's position.", "group", "topic", "partition"
)
GROUP_LAG_SECONDS = gauge(
    "group_lag_seconds", "Age of the last processed record while others wait, else 0.", "group", "topic", "partition"
)
GROUP_OLDEST_EVENT_TIME = gauge(
    "group_oldest_unprocessed_event_time_seconds",
    "Unix time up to which everything this member holds is processed; now, if nothing waits.",
    "group",
)
GROUP_RETRIES = counter(
    "group_retries", "Waits before a batch or a record was tried again. Rising: the state says why.", "group"
)
GROUP_DEAD_LETTERS = counter(
    "group_dead_letters", "Records given up and kept in dead.letters: headwater dead list shows them.", "group"
)
GROUP_REBALANCES = counter(
    "group_rebalances", "Times partitions were given or taken. Rising without restarts: members die or hang.", "group"
)
GROUP_PAUSED_SECONDS = counter("group_paused_seconds", "Time with partitions paused behind a long step.", "group")
GROUP_STATE = gauge(
    "group_state",
    "1 for the phase the member is in: starting, running, paused, degraded (the log says why), draining, stopped.",
    "group",
    "phase",
)

# Upload

UPLOAD_OBJECTS = counter(
    "upload_objects",
    "Whole objects or parts by outcome: sent, found (S3 had it already), torn (the file changed after its event).",
    "lane",
    "outcome",
)
UPLOAD_BYTES = counter("upload_bytes", "Bytes sent to S3 and accepted; its rate is the uplink in use.", "lane")
UPLOAD_SKIPPED_OBJECTS = counter(
    "upload_skipped_objects", "Changes whose content the catalog had already: renames, copies, reverts.", "lane"
)
UPLOAD_SKIPPED_BYTES = counter("upload_skipped_bytes", "Bytes that were not sent because the catalog had them.", "lane")
UPLOAD_ORPHANS = counter(
    "upload_orphans_aborted",
    "Multipart uploads that nobody continued, aborted to free what their parts take. Many: files change while sent.",
)
UPLOAD_STALE = counter(
    "upload_stale_records", "Records of an owner of the source before the present one, dropped.", "lane"
)
S3_CAPABILITY = gauge(
    "s3_capability",
    "1 for each thing that the S3 server did when this process started, 0 for what it did not: `headwater doctor` says "
    "what follows.",
    "capability",
)
UPLOAD_DEFERRED = gauge(
    "upload_deferred_objects",
    "Contents that wait because their source's root is away on this host; other sources go on. Mount it, or set "
    "upload.roots.SOURCE.",
    "lane",
    "source",
)
UPLOAD_SECONDS = histogram(
    "upload_seconds",
    "Time to read, check and send one object or part. Above a second for small files: the uplink or S3 is slow.",
    "lane",
    buckets=SECONDS,
)

# Verify

VERIFY_OBJECTS = counter(
    "verify_objects", "Objects judged, by verdict. Any condemned is an alarm: stored bytes differ.", "lane", "verdict"
)
VERIFY_BYTES = counter("verify_bytes", "Bytes read back from S3 and hashed.", "lane")
VERIFY_SECONDS = histogram("verify_seconds", "Time to read back and judge one object.", "lane", buckets=SECONDS)

# Commit

COMMIT_HEAD = gauge("commit_head", "Number of the newest published version.", "dataset")
COMMIT_EXCEPTIONS = gauge(
    "commit_exceptions", "Paths that the newest version holds at an older state than its cut, or not at all.", "dataset"
)
COMMIT_UNCOMMITTED = gauge(
    "commit_uncommitted", "Changes recorded since the last version. Long growing: the committer is stuck.", "dataset"
)
COMMIT_SECONDS = histogram(
    "commit_seconds", "Time to make one version, from its manifest to its publication.", "dataset", buckets=SECONDS
)
COMMIT_CHANGES = counter("commit_changes", "Paths added, changed or removed by the versions published.", "dataset")
COMMIT_BYTES = counter("commit_bytes", "Bytes of the files that the versions published added or changed.", "dataset")
COMMIT_RETRIES = counter(
    "commit_retries", "Times that the committer waited for something that did not answer.", "dataset"
)

SOURCE_SILENT_SECONDS = gauge(
    "source_silent_seconds",
    "Time since the source's agent last said in the catalog that it lives; 0 once it said goodbye. The committer "
    "measures it, so that an agent's death is seen from another host. Above 30 another agent may take the source over.",
    "source",
)

# Peer (broadcast)

PEER_CASTS = gauge(
    "peer_casts",
    "Casts of this peer by phase: opening, receiving, complete, installed (served on), origin. Long receiving or "
    "complete: `headwater cast watch` says what is missing.",
    "phase",
)
PEER_FETCHES = counter(
    "peer_fetches",
    "Chunks asked of others by outcome: verified; corrupt (the source is blamed); busy, not_here, refused; cut_off; "
    "cancelled; no_space. Any corrupt is an alarm.",
    "outcome",
)
PEER_RECEIVED_BYTES = counter(
    "peer_received_bytes",
    "Bytes of chunks that came, from inside the rack or from outside; all of a rack's peers together get a file from "
    "outside about once.",
    "via",
)
PEER_SENT_BYTES = counter("peer_sent_bytes", "Bytes of chunks that were sent to others.")
PEER_EVENTS = counter(
    "peer_events", "What this peer said in cast.events, by kind: blamed, stalled, hedged, missing, …", "kind"
)
PEER_UPLOADS = gauge(
    "peer_uploads_busy", "Chunks that are being sent now; at the limit others are told to try elsewhere."
)
PEER_LINKS = gauge("peer_links", "Control links that are open; about as many as the rack has other hosts.")
PEER_INCARNATIONS = counter(
    "peer_incarnations", "Times this peer began anew because it had stood still. Rising: the host is overloaded."
)

# Agent (the filesystem tail)

AGENT_FILES = gauge("agent_files", "Paths that the agent's index knows.", "source")
AGENT_PENDING = gauge(
    "agent_pending",
    "Paths that were sent and are not verified yet. Not falling: look at the lag of upload and verify.",
    "source",
)
AGENT_EXCEPTIONS = gauge(
    "agent_exceptions", "Paths that cannot be carried now (busy, unreadable, special): versions name them.", "source"
)
AGENT_SETTLING = gauge("agent_settling", "Paths that changed and wait until nobody writes to them.", "source")
AGENT_OUTBOX = gauge("agent_outbox", "Records that Kafka has not acknowledged. Growing: the broker is away.", "source")
AGENT_HALTED = gauge(
    "agent_halted", "1 while the root cannot be believed (missing, empty, not mounted): nothing is sent.", "source"
)
AGENT_DELETES_HALTED = gauge(
    "agent_deletes_halted",
    "1 while more paths went missing than a day may delete: they are kept until `headwater consent SOURCE`. All else "
    "goes on.",
    "source",
)
AGENT_LISTING_AGE_SECONDS = gauge(
    "agent_listing_age_seconds", "Every directory was listed completely within this time: the cycle's length.", "source"
)
AGENT_WEAK = gauge(
    "agent_weak_files",
    "Files that were read where nothing proves that nobody wrote to them: other owners' files, network filesystems.",
    "source",
)
AGENT_UNWATCHED = gauge(
    "agent_unwatched", "Directories beyond the kernel's limit of watches: changes there are found by listing.", "source"
)
AGENT_OVERFLOWS = gauge(
    "agent_overflows", "Times that the kernel dropped events since the start; everything was listed again.", "source"
)
AGENT_AUDITED_BYTES = counter(
    "agent_audited_bytes", "Bytes of unchanged files that the slow audit has read again.", "source"
)
AGENT_DAMAGED = counter(
    "agent_damaged_files",
    "Files whose bytes changed, or cannot be read any more, though no clock of theirs moved: versions keep their last "
    "good state.",
    "source",
)
AGENT_READ_BYTES = counter("agent_read_bytes", "Bytes of files that were read and hashed.", "source")
AGENT_RECORDS_SENT = counter("agent_records_sent", "Records that Kafka acknowledged.", "source")
AGENT_REQUESTS = counter(
    "agent_requests",
    "Paths that the cloud side asked for again, by reason (torn, condemned, operator).",
    "source",
    "reason",
)

# Views (what all processes say together)

VIEW_RECORDS = gauge(
    "view_records_per_second",
    "Records a second that a stage did over the last minute, all its processes together.",
    "stage",
)
VIEW_BYTES = gauge("view_bytes_per_second", "Bytes a second that a stage carried over the last minute.", "stage")
VIEW_WAITING = gauge(
    "view_waiting_records", "Records that wait before a stage. The stage where they pile up is the bottleneck.", "stage"
)
VIEW_BEHIND_SECONDS = gauge(
    "view_behind_seconds", "Age of the oldest event that a stage has not processed, 0 where none waits.", "stage"
)
VIEW_GROUP_STATE = gauge(
    "view_group_state",
    "1 for the state of each group: running, paused, starting, draining, stopped, degraded, silent.",
    "group",
    "state",
)
VIEW_GROUP_SILENT_SECONDS = gauge(
    "view_group_silent_seconds",
    "Time since any member of the group was heard of, where all are silent and none said goodbye; else 0.",
    "group",
)
VIEW_TIME = gauge(
    "view_time_seconds", "Unix time that the views show. Long in the past: they are catching up, or nobody speaks."
)

# Gossip (what the peers of each cast say together; shown by the member that follows the rack)

CAST_HOSTS = gauge(
    "cast_hosts",
    "Peers of a rack that a cast names, by state: there, and of them complete, installed, slow; silent are those that "
    "were not heard of for seconds or are suspected.",
    "cast",
    "rack",
    "state",
)
CAST_CHUNKS = gauge(
    "cast_chunks_share",
    "Share of the chunks that a rack's peers have: the least, the median, the most, and all of them together.",
    "cast",
    "rack",
    "whose",
)
CAST_BYTES = gauge(
    "cast_bytes_per_second",
    "What a rack's peers received together in the last second. 0 while some are not complete: the cast is stalled.",
    "cast",
    "rack",
)
CAST_LEFT_SECONDS = gauge(
    "cast_left_seconds", "Time until a cast expires. What is not complete then stays incomplete.", "cast"
)
CAST_EVENTS = counter(
    "cast_events",
    "Events of a cast by kind: blamed (a peer served wrong bytes), stalled, slow, suspected, hedged, missing, refused, "
    "source_changed. `headwater cast watch` shows whom they are about.",
    "cast",
    "kind",
)
GOSSIP_TIME = gauge(
    "gossip_time_seconds",
    "Unix time up to which the summaries of racks are made. Long in the past: racks do not see each other.",
)
GOSSIP_IGNORED = counter(
    "gossip_ignored_records",
    "Records of availability that say nothing: of a host that never joined (unplaced), or that do not decode "
    "(unreadable).",
    "why",
)
