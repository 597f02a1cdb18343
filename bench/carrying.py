"""A folder carried to one S3 server by headwater, rclone and s5cmd in turn: until all of it is stored, and verified.

Headwater: one agent and one member of each group that the work needs, from the agent's start until the catalog shows
every content stored, and until it shows every one verified (each object read back and hashed). The members wait in
their groups before the clock starts, as they do in production; the agent's start, walk, settle time and hashing count.
rclone: ``copy``, then ``check --download`` (each object read back and compared). s5cmd: ``cp``.

Each run has a bucket of its own, its files are in the page cache (read once before), and what earlier runs wrote is
on the disk before it starts. No lakeFS commit is part of any figure.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import peers
from installation import Installation, fresh_name
from measured import cpu_seconds

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.stack.addresses import Addresses

SOURCE = "bench"


@dataclass(frozen=True, slots=True)
class Work:
    """``contents`` different files below ``folder``, carried by ``groups``: ``amount`` of ``unit`` in all."""

    folder: Path
    contents: int
    groups: tuple[str, ...]
    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds until stored, until verified (None where the program does not verify), and who used the CPU."""

    stored_seconds: float
    verified_seconds: float | None
    cpu_seconds: dict[str, float]


def compare(addresses: Addresses, work: Work, rounds: int) -> dict[str, object]:
    """All three in turn, ``rounds`` times; medians, as the keys that a benchmark of this kind must have."""
    runs: dict[str, list[Run]] = {"headwater": [], "rclone": [], "s5cmd": []}
    measures: dict[str, Callable[[S3Config], Run]] = {
        "headwater": lambda bucket: headwater(addresses, bucket, work),
        "rclone": lambda bucket: rclone(bucket, work.folder),
        "s5cmd": lambda bucket: s5cmd(bucket, work.folder),
    }
    for number in range(rounds):
        for name, measure in measures.items():
            with fresh_bucket(addresses.s3) as bucket:
                settle(work.folder)
                runs[name].append(measure(bucket))
            print(f"round {number + 1}: {name:<10}{_line(runs[name][-1], work)}", flush=True)
    return {"rounds": rounds, **result(work, runs)}


def result(work: Work, runs: dict[str, list[Run]]) -> dict[str, object]:
    stored = {name: work.amount / statistics.median(r.stored_seconds for r in done) for name, done in runs.items()}
    verified = {
        name: work.amount / statistics.median(r.verified_seconds for r in done if r.verified_seconds)
        for name, done in runs.items()
        if done[0].verified_seconds
    }
    return {
        f"stored_{work.unit}_per_s": round(stored["headwater"], 1),
        f"verified_{work.unit}_per_s": round(verified["headwater"], 1),
        f"rclone_copy_{work.unit}_per_s": round(stored["rclone"], 1),
        f"rclone_copy_check_{work.unit}_per_s": round(verified["rclone"], 1),
        f"s5cmd_{work.unit}_per_s": round(stored["s5cmd"], 1),
        "ratio_stored": round(stored["headwater"] / stored["rclone"], 3),
        "ratio_verified": round(verified["headwater"] / verified["rclone"], 3),
        "cpu_seconds": {name: _median_cpu(done) for name, done in runs.items()},
        "peers": peers.versions(),
    }


def settle(folder: Path) -> None:
    """The same start for every run: the disk has no older writes to do, the files are in the page cache."""
    os.sync()
    for path in folder.rglob("*.bin"):
        with path.open("rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


@contextmanager
def fresh_bucket(address: str) -> Iterator[S3Config]:
    bucket = replace(S3Config.from_url(address), bucket=fresh_name())
    ObjectStore(bucket).ensure_bucket()
    try:
        yield bucket
    finally:
        peers.empty(bucket)


def rclone(bucket: S3Config, folder: Path) -> Run:
    with cpu_seconds() as used:
        copied = peers.rclone_copy(folder, bucket)
        checked = peers.rclone_check(folder, bucket)
    return Run(copied, copied + checked, used)


def s5cmd(bucket: S3Config, folder: Path) -> Run:
    with cpu_seconds() as used:
        copied = peers.s5cmd_copy(folder, bucket)
    return Run(copied, None, used)


def headwater(addresses: Addresses, bucket: S3Config, work: Work) -> Run:
    """One agent and one member of each group, on a catalog and topics of their own, named as the bucket."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as home:
        settings = {f"HEADWATER_SOURCES__{SOURCE.upper()}__ROOT": str(work.folder)}
        ours = Installation(addresses, bucket.bucket, Path(home), settings)
        ours.prepare()
        with ExitStack() as running:
            catalog = running.enter_context(ours.catalog())
            members = running.enter_context(ours.members(*work.groups))
            with cpu_seconds() as used:
                began = time.monotonic()
                agent = running.enter_context(ours.process("sync", str(work.folder), "--source", SOURCE))
                wait = partial(ours.wait, [*members, agent])
                wait(lambda: _counter(catalog, "objects_stored") >= work.contents, "files stored")
                stored = time.monotonic() - began
                wait(lambda: _counter(catalog, "objects_verified") >= work.contents, "files verified")
                verified = time.monotonic() - began
    return Run(stored, verified, used)


def _counter(catalog: Catalog, name: str) -> int:
    with catalog.transaction() as transaction:
        row = transaction.execute(
            "SELECT value FROM counters WHERE source = %s AND name = %s", [SOURCE, name]
        ).fetchone()
    return int(row[0]) if row else 0


def _median_cpu(done: list[Run]) -> dict[str, float]:
    names = {name for run in done for name in run.cpu_seconds}
    medians = {name: statistics.median(run.cpu_seconds.get(name, 0.0) for run in done) for name in sorted(names)}
    return {name: round(seconds, 1) for name, seconds in medians.items() if seconds >= 0.1}


def _line(done: Run, work: Work) -> str:
    verified = f", verified {work.amount / done.verified_seconds:,.0f}" if done.verified_seconds else ""
    return f"stored {work.amount / done.stored_seconds:,.0f}{verified} {work.unit}/s"
