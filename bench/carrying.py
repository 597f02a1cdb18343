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
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import peers
import psutil

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.lag import group_lags
from headwater.connectors.kafka.topics import apply
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import Transient, Unavailable
from headwater.schemas.topics import catalogue
from headwater.stack.addresses import Addresses
from headwater.stack.postgres import create_database, database_address

SITE = "bench"
SOURCE = "bench"
DEADLINE_SECONDS = 600


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
    bucket = replace(S3Config.from_url(address), bucket=f"bench-{uuid.uuid4().hex[:12]}")
    ObjectStore(bucket).ensure_bucket()
    try:
        yield bucket
    finally:
        peers.empty(bucket)


def rclone(bucket: S3Config, folder: Path) -> Run:
    with cpu() as used:
        copied = peers.rclone_copy(folder, bucket)
        checked = peers.rclone_check(folder, bucket)
    return Run(copied, copied + checked, used)


def s5cmd(bucket: S3Config, folder: Path) -> Run:
    with cpu() as used:
        copied = peers.s5cmd_copy(folder, bucket)
    return Run(copied, None, used)


def headwater(addresses: Addresses, bucket: S3Config, work: Work) -> Run:
    """One agent and one member of each group, on a catalog, topics and a bucket of their own."""
    name = f"bench{uuid.uuid4().hex[:12]}"
    create_database(addresses.postgres, name)
    kafka = Kafka(KafkaConfig(addresses.kafka, prefix=f"{name}."))
    apply(kafka, catalogue((SITE,)))
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as home,
        Catalog(CatalogConfig(database_address(addresses.postgres, name))) as catalog,
        ExitStack() as processes,
    ):
        catalog.migrate()
        environment = _environment(addresses, bucket, name, work.folder, Path(home))
        started = [processes.enter_context(_process(["run", group], environment, Path(home))) for group in work.groups]
        wait = partial(_wait, started, Path(home))
        wait(lambda: _assigned(kafka, len(work.groups)), "members in their groups")
        with cpu() as used:
            began = time.monotonic()
            agent = _process(["sync", str(work.folder), "--source", SOURCE], environment, Path(home))
            started.append(processes.enter_context(agent))
            wait(lambda: _counter(catalog, "objects_stored") >= work.contents, "files stored")
            stored = time.monotonic() - began
            wait(lambda: _counter(catalog, "objects_verified") >= work.contents, "files verified")
            verified = time.monotonic() - began
    return Run(stored, verified, used)


def _environment(addresses: Addresses, bucket: S3Config, name: str, folder: Path, home: Path) -> dict[str, str]:
    parts = addresses.s3.partition("?")
    own = {
        "HEADWATER_POSTGRES": database_address(addresses.postgres, name),
        "HEADWATER_S3": parts[0].rpartition("/")[0] + f"/{bucket.bucket}?{parts[2]}",
        "HEADWATER_KAFKA__PREFIX": f"{name}.",
        "HEADWATER_SITE": SITE,
        "HEADWATER_STATE_FOLDER": str(home / "state"),
        f"HEADWATER_SOURCES__{SOURCE.upper()}__ROOT": str(folder),
        "HEADWATER_LOG_LEVEL": "warning",
    }
    return {**os.environ, **addresses.environment(), **own}


@contextmanager
def _process(arguments: list[str], environment: dict[str, str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of our processes; stopped by SIGTERM where the block ends."""
    with (home / f"{arguments[0]}-{arguments[1].rpartition('/')[2]}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "headwater"), *arguments],
            env=environment, cwd=home, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def _assigned(kafka: Kafka, groups: int) -> bool:
    """Every group has a member that holds partitions."""
    try:
        lags = group_lags(kafka, time.time())
    except Transient:  # a broker that just started has no coordinator for them yet
        return False
    return sum(any(at.member for at in group.partitions) for group in lags) >= groups


def _counter(catalog: Catalog, name: str) -> int:
    with catalog.transaction() as transaction:
        row = transaction.execute(
            "SELECT value FROM counters WHERE source = %s AND name = %s", [SOURCE, name]
        ).fetchone()
    return int(row[0]) if row else 0


def _wait(processes: list[subprocess.Popen[bytes]], home: Path, done: Callable[[], bool], what: str) -> None:
    """Raises Unavailable, with what the logs say, when it takes too long or a process ends."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        ended = any(process.poll() is not None for process in processes)
        if ended or time.monotonic() > deadline:
            logs = "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in home.glob("*.log"))
            why = "a process ended" if ended else f"{DEADLINE_SECONDS} s have passed"
            raise Unavailable(f"still no {what}, and {why}.\n{logs}")
        time.sleep(0.1)


@contextmanager
def cpu() -> Iterator[dict[str, float]]:
    """CPU seconds of each program while the block ran, filled in where it ends."""
    used: dict[str, float] = {}
    before, children = _cpu_by_process(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield used
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    for process, seconds in _cpu_by_process().items():
        used[process[1]] = round(used.get(process[1], 0.0) + seconds - before.get(process, 0.0), 1)
    used["peer"] = round(ended, 1)


def _cpu_by_process() -> dict[tuple[int, str], float]:
    """By pid and name. Our own processes are children of this one; the servers are found by their names, whosever."""
    ours = {child.pid for child in psutil.Process().children()}
    seconds: dict[tuple[int, str], float] = {}
    for process in psutil.process_iter(["pid", "cmdline", "cpu_times"]):
        pid, command, times = (process.info[name] for name in ("pid", "cmdline", "cpu_times"))
        if command and times and (name := _ours(command) if pid in ours else _server(command)):
            seconds[pid, name] = times.user + times.system
    return seconds


def _ours(command: list[str]) -> str | None:
    known = {"sync": "agent", "upload-": "upload", "verify-": "verify"}
    return next((name for start, name in known.items() for word in command if word.startswith(start)), None)


def _server(command: list[str]) -> str | None:
    if "kafka.Kafka" in command:
        return "Kafka"
    first = Path(command[0]).name
    return {"versitygw": "S3 server"}.get(first) or ("PostgreSQL" if first.startswith("postgres") else None)


def _median_cpu(done: list[Run]) -> dict[str, float]:
    names = {name for run in done for name in run.cpu_seconds}
    medians = {name: statistics.median(run.cpu_seconds.get(name, 0.0) for run in done) for name in sorted(names)}
    return {name: round(seconds, 1) for name, seconds in medians.items() if seconds >= 0.1}


def _line(done: Run, work: Work) -> str:
    verified = f", verified {work.amount / done.verified_seconds:,.0f}" if done.verified_seconds else ""
    return f"stored {work.amount / done.stored_seconds:,.0f}{verified} {work.unit}/s"
