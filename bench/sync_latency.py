"""sync-latency: a new file of 100 KiB while nothing else happens: from its close until it is verified in S3.

One agent (settle 0.2 s), one upload-files and one verify-objects member, all waiting. The clock starts after close(),
and stops when the catalog's row of the content reads verified; it is asked every 5 ms, which is the error. Files come
at random moments, so that no poll interval of ours is in step with them.

Where the time goes is read afterwards from the records' event times and Kafka's timestamps: ``recorded`` (settled,
read, in the index), ``on_the_log`` (handed to Kafka), ``stored`` (in S3, and the catalog knows), ``verified``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from blake3 import blake3
from installation import SITE, Installation, fresh_name
from psycopg import Connection

from headwater.connectors.kafka.browse import Seen, Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import EVENT_TIME, header
from headwater.rules.errors import Unavailable
from headwater.schemas.records import FileChange, ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS, fs_changes
from headwater.stack.addresses import Addresses

SOURCE = "latency"
FILE_BYTES = 100 * 1024
POLL_SECONDS = 0.005
DEADLINE_SECONDS = 60
BEGINNING = Start("beginning")


@dataclass(frozen=True, slots=True)
class Size:
    samples: int
    warm_up: int
    longest_pause_seconds: float


FULL = Size(samples=300, warm_up=10, longest_pause_seconds=1.0)
QUICK = Size(samples=20, warm_up=3, longest_pause_seconds=0.4)


@dataclass(frozen=True, slots=True)
class Sample:
    """When (wall clock, seconds) one file was closed, and seen verified."""

    hash: bytes
    closed_at: float
    verified_at: float

    @property
    def seconds(self) -> float:
        return self.verified_at - self.closed_at


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    """Returns the keys of the result."""
    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        settings = {
            f"HEADWATER_SOURCES__{SOURCE.upper()}__ROOT": str(root),
            f"HEADWATER_SOURCES__{SOURCE.upper()}__SETTLE_SECONDS": "0.2",
        }
        ours = Installation(addresses, fresh_name(), Path(folder) / "home", settings)
        ours.prepare()
        with ours.members("upload-files", "verify-objects"), ours.process("sync", str(root), "--source", SOURCE):
            samples = measure(ours, root, size)
        stages = stages_of(ours.kafka(), samples)
    seconds = sorted(sample.seconds for sample in samples)
    for name, median in stages.items():
        print(f"{name:<12}{median * 1000:7.0f} ms after close, in the median")
    return {
        "samples": len(seconds),
        "p50_s": round(statistics.median(seconds), 3),
        "p99_s": round(seconds[int(0.99 * (len(seconds) - 1))], 3),
        "max_s": round(seconds[-1], 3),
        "p50_s_until": {name: round(median, 3) for name, median in stages.items()},
    }


def measure(ours: Installation, root: Path, size: Size) -> list[Sample]:
    """One file after the other, each when the one before it is verified; the first few only warm everything up."""
    random = Random(1)
    samples = []
    with Connection.connect(ours.dsn, autocommit=True) as connection:
        for number in range(size.warm_up + size.samples):
            time.sleep(random.uniform(0, size.longest_pause_seconds))
            samples.append(one_file(connection, root / f"{number:04d}.bin", random.randbytes(FILE_BYTES)))
    return samples[size.warm_up :]


def one_file(connection: Connection, place: Path, content: bytes) -> Sample:
    """Raises Unavailable where the file is not verified in time."""
    digest = blake3(content).digest()
    place.write_bytes(content)
    closed_at = time.time()
    while not connection.execute("SELECT 1 FROM objects WHERE hash = %s AND state = 'verified'", [digest]).fetchone():
        if time.time() - closed_at > DEADLINE_SECONDS:
            raise Unavailable(f"{place.name} is not verified after {DEADLINE_SECONDS} s.")
        time.sleep(POLL_SECONDS)
    return Sample(digest, closed_at, time.time())


def stages_of(kafka: Kafka, samples: list[Sample]) -> dict[str, float]:
    """Seconds from close until each stage was reached, medians."""
    closed_at = {sample.hash: sample.closed_at for sample in samples}
    reached: dict[str, list[float]] = {"recorded": [], "on_the_log": [], "stored": []}
    for seen in browse(kafka, fs_changes(SITE).name, BEGINNING):
        if isinstance(seen.record, FileChange) and seen.record.hash in closed_at:
            reached["recorded"].append(event_time(seen) - closed_at[seen.record.hash])
            reached["on_the_log"].append(seen.timestamp_ms / 1000 - closed_at[seen.record.hash])
    for seen in browse(kafka, SYNC_OBJECTS.name, BEGINNING):
        if isinstance(seen.record, ObjectStored) and seen.record.hash in closed_at:
            reached["stored"].append(event_time(seen) - closed_at[seen.record.hash])
    reached["verified"] = [sample.seconds for sample in samples]
    return {name: statistics.median(seconds) for name, seconds in reached.items() if seconds}


def event_time(seen: Seen) -> float:
    return int(header(seen.headers, EVENT_TIME) or 0) / 1_000_000
