"""What a death at any instant leaves, who may own a source, and what a restart costs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from inotify_simple import INotify, flags

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.rules.errors import Fenced, HeadwaterError, NotFound, Refused
from headwater.schemas import codec, topics
from headwater.schemas.records import ChangeKind, RequestReason, SyncRequest

Eventually = Callable[..., Any]

STEPS = (
    "before the change is committed",
    "after the change is committed",
    "after the record is acknowledged",
    "after the record left the outbox",
)


@contextmanager
def process(step: str, config: AgentConfig, kafka: Kafka, catalog: Catalog) -> Iterator[subprocess.Popen[bytes]]:
    given = {
        "kafka": kafka.config.bootstrap_servers,
        "prefix": kafka.config.prefix,
        "catalog": catalog.config.dsn,
        "config": asdict(config),
    }
    command = [sys.executable, str(Path(__file__).with_name("agent_process.py")), step, json.dumps(given, default=str)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def write_files(root: Path, count: int) -> dict[bytes, bytes]:
    """Makes files of random content; returns path to BLAKE3."""
    written = {}
    for number in range(count):
        content = os.urandom(20)
        (root / f"{number}.bin").write_bytes(content)
        written[f"{number}.bin".encode()] = blake3(content).digest()
    return written


def hashes(cloud: Any) -> dict[bytes, bytes]:
    return {path: record.hash for path, record in cloud.read().newest().items() if record.hash is not None}


def ask_again(kafka: Kafka, source: str, path: bytes) -> None:
    request = SyncRequest(source=source, path=path, display=path.decode(), epoch=1, seq=1, reason=RequestReason.torn)
    producer = kafka.producer()
    producer.produce(kafka.physical(topics.SYNC_REQUESTS), codec.encode(request), request.key())
    assert producer.flush(10) == 0


@pytest.mark.fault
@pytest.mark.parametrize("step", STEPS)
def test_a_change_survives_a_death_at_each_step_under_one_clock(
    step: str, config: AgentConfig, follow: Any, kafka: Kafka, catalog: Catalog, cloud: Any, eventually: Eventually
) -> None:
    written = write_files(config.root, 30)
    with process(step, config, kafka, catalog) as child:
        assert child.wait(20) == -signal.SIGKILL
    with follow() as running:
        eventually(lambda: hashes(cloud) == written)
        eventually(lambda: cloud.read() and running.status.walked and running.status.pending == 0)
    clocks = {(record.path, record.clock, record.hash) for record in cloud.records}
    assert len(clocks) == 30
    assert sorted(clock.seq for _, clock, _ in clocks) == list(range(1, 31))
    assert {clock.epoch for _, clock, _ in clocks} == {1}


@pytest.mark.fault
@pytest.mark.parametrize("step", ["before requests are marked", "after requests are marked"])
def test_a_request_survives_a_death_at_each_step(
    step: str,
    config: AgentConfig,
    follow: Any,
    kafka: Kafka,
    catalog: Catalog,
    cloud: Any,
    eventually: Eventually,
) -> None:
    write_files(config.root, 1)
    with follow() as running:
        eventually(lambda: hashes(cloud) and running.status.walked and running.status.pending == 0)
    with process(step, config, kafka, catalog) as child:
        ask_again(kafka, config.source, b"0.bin")
        assert child.wait(20) == -signal.SIGKILL
    with follow():
        eventually(lambda: len(cloud.read().of(b"0.bin")) >= 2)
    first, again, *_ = cloud.of(b"0.bin")
    assert (again.kind, again.hash) == (ChangeKind.modified, first.hash)


def test_a_request_sends_an_unchanged_file_under_a_new_clock(
    config: AgentConfig, follow: Any, kafka: Kafka, cloud: Any, eventually: Eventually
) -> None:
    write_files(config.root, 2)
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 2 and running.status.walked)
        ask_again(kafka, config.source, b"0.bin")
        ask_again(kafka, config.source, b"is not there")
        ask_again(kafka, "another source", b"1.bin")
        eventually(lambda: len(cloud.read().of(b"0.bin")) == 2)
    first, again = cloud.of(b"0.bin")
    assert (again.kind, again.hash, again.clock > first.clock) == (ChangeKind.modified, first.hash, True)
    assert len(cloud.of(b"1.bin")) == 1


def test_what_nobody_stores_is_sent_again(
    config: AgentConfig, follow: Any, cloud: Any, catalog: Catalog, eventually: Eventually
) -> None:
    write_files(config.root, 1)

    def recorded_but_lost() -> bool:
        with catalog.transaction() as transaction:
            for record in cloud.read().records:
                transaction.execute("DELETE FROM objects WHERE hash = %s", [record.hash])
        return len(cloud.of(b"0.bin")) == 2

    with follow(resend_seconds=0.5):
        eventually(recorded_but_lost)
    assert cloud.of(b"0.bin")[1].kind is ChangeKind.modified


def test_a_restart_reads_no_file_and_sends_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    written = write_files(config.root, 50)
    with follow() as running:
        eventually(lambda: hashes(cloud) == written)
        eventually(lambda: cloud.read() and running.status.walked and running.status.pending == 0)
    sent = len(cloud.records)
    with INotify() as reads:
        reads.add_watch(config.root, flags.ACCESS | flags.OPEN)
        with follow() as running:
            eventually(lambda: running.status.walked and running.status.directories_due == 0)
        assert [event.name for event in reads.read(timeout=0) if not event.mask & flags.ISDIR] == []
    assert len(cloud.read().records) == sent
    assert running.status.files == 50


def test_a_stopped_reader_loses_events_and_finds_every_file(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, cloud: Any, eventually: Eventually
) -> None:
    """Cases 4 and 5: more events than the kernel's queue holds while the agent is stopped."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (config.root / "burst").mkdir()
    write_files(config.root, 1)
    with process("none", config, kafka, catalog) as child:
        eventually(lambda: hashes(cloud))
        child.send_signal(signal.SIGSTOP)
        for number in range(queue // 3 + 500):
            (config.root / f"burst/{number}").write_bytes(b"%d" % number)
        child.send_signal(signal.SIGCONT)
        eventually(lambda: len(hashes(cloud)) == queue // 3 + 501, 40)
        child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=20)
    assert json.loads(output)["overflows"] >= 1


def test_a_second_agent_is_refused_and_a_dead_ones_source_is_taken_over(
    config: AgentConfig, follow: Any, kafka: Kafka, catalog: Catalog, cloud: Any, eventually: Eventually
) -> None:
    written = write_files(config.root, 3)
    other_index = config.state_folder.with_name("other")
    with follow() as first:
        eventually(lambda: hashes(cloud) == written and first.status.pending == 0 and first.status.walked)
        with pytest.raises(Refused, match="another process has the index"):
            Agent(config, kafka, catalog)
        with pytest.raises(Refused, match="is alive"), follow(state_folder=other_index) as second:
            second.thread.join(20)
        assert first.thread.is_alive()
    # The first one said goodbye. The second one's index is empty: what the catalog knows is not lost on it.
    with catalog.transaction() as transaction:
        for record in cloud.records:
            transaction.execute(
                "INSERT INTO file_versions (source, path, epoch, seq, kind, file_type, hash, size, mtime_ns, mode, "
                "uid, gid, guarantee) VALUES (%s, %s, %s, %s, 'created', 'regular', %s, %s, %s, %s, %s, %s, 'strong')",
                [
                    *(record.source, record.path, record.epoch, record.seq, record.hash, record.size),
                    *(record.mtime_ns, record.mode, record.uid, record.gid),
                ],
            )
            transaction.execute(
                "INSERT INTO paths (source, path, epoch, seq) VALUES (%s, %s, %s, %s)",
                [record.source, record.path, record.epoch, record.seq],
            )
    (config.root / "0.bin").unlink()
    (config.root / "1.bin").write_bytes(b"changed")
    with follow(state_folder=other_index) as second:
        eventually(lambda: len(hashes(cloud)) == 2 and second.status.pending == 0)
    later = [record for record in cloud.records if record.epoch == 2]
    assert {(record.path, record.kind) for record in later} == {
        (b"0.bin", ChangeKind.deleted),
        (b"1.bin", ChangeKind.modified),
    }


def test_an_agent_whose_source_was_taken_over_stops(
    config: AgentConfig, follow: Any, catalog: Catalog, eventually: Eventually
) -> None:
    def taken_over() -> None:
        with follow() as running:
            eventually(lambda: running.status.walked)
            with catalog.transaction() as transaction:
                transaction.execute("UPDATE sources SET epoch = epoch + 1 WHERE source = %s", [config.source])
            running.thread.join(20)

    with pytest.raises(Fenced):
        taken_over()


def test_an_agent_that_lives_and_cannot_be_stopped_is_fenced_on_demand(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    def fenced() -> None:
        with follow() as first:
            eventually(lambda: cloud.read().newest() and first.status.walked)
            with follow(state_folder=config.state_folder.with_name("other"), take_over=True) as second:
                first.thread.join(20)
                (config.root / "later").write_bytes(b"later")
                eventually(lambda: b"later" in cloud.read().newest())
                assert (first.status.epoch, second.status.epoch) == (1, 2)

    write_files(config.root, 1)
    with pytest.raises(Fenced, match="another agent owns source"):
        fenced()
    assert cloud.of(b"later")[0].epoch == 2


def test_an_index_from_a_backup_takes_a_new_epoch(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """It would give out clocks a second time."""
    written = write_files(config.root, 3)
    with follow() as running:
        eventually(lambda: hashes(cloud) == written and running.status.pending == 0 and running.status.walked)
    backup = config.state_folder.with_name("backup")
    shutil.copytree(config.state_folder, backup)
    with follow() as running:
        (config.root / "0.bin").write_bytes(b"later")
        eventually(lambda: len(cloud.read().of(b"0.bin")) == 2 and running.status.pending == 0)
        eventually(lambda: cloud.read() and set(cloud.checkpoints.values()) == {(1, 4)})
    shutil.rmtree(config.state_folder)
    backup.rename(config.state_folder)
    with follow() as running:
        eventually(lambda: running.status.walked and running.status.epoch == 2)
        (config.root / "0.bin").write_bytes(b"latest")
        eventually(lambda: hashes(cloud)[b"0.bin"] == blake3(b"latest").digest())


@pytest.mark.parametrize("make", ["missing", "file", "inside"])
def test_a_wrong_root_is_refused_with_the_fix(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, make: str, tmp_path: Path
) -> None:
    root = tmp_path / make
    if make == "file":
        root.touch()
    given = {**asdict(config), "root": root}
    if make == "inside":
        given = {**asdict(config), "state_folder": config.root / ".state"}
    with pytest.raises(HeadwaterError) as refused:
        Agent(AgentConfig(**given), kafka, catalog)
    assert refused.value.asked
    assert refused.value.advice
    assert (make == "inside") != isinstance(refused.value, NotFound)
