"""A world that is out to hurt: clocks that jump, disks that are full, garbage on the log, names without end."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.config import AgentConfig
from headwater.rules.errors import Unavailable
from headwater.schemas import codec, topics
from headwater.schemas.records import ChangeKind, RequestReason, SyncRequest

Eventually = Callable[..., Any]


def hashes(cloud: Any) -> dict[bytes, bytes]:
    return {path: record.hash for path, record in cloud.read().newest().items() if record.hash is not None}


def holding(**contents: bytes) -> dict[bytes, bytes]:
    return {name.encode(): blake3(content).digest() for name, content in contents.items()}


class SetClock:
    """A wall clock that runs on from wherever it is set."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def test_a_clock_that_jumps_neither_holds_up_nor_reorders_anything(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Case 25, on the side of the events: order comes from the counter alone."""
    clock = SetClock()
    file, gone = config.root / "file", config.root / "gone"
    gone.write_bytes(b"gone")
    with follow(clock=clock, settle_seconds=1.0):
        eventually(lambda: hashes(cloud) == holding(gone=b"gone"), 30)
        for ahead in (-86_400.0, 365 * 86_400.0, 0.0):
            content = b"written with the clock at %d" % ahead
            file.write_bytes(content)
            clock.ahead = ahead
            eventually(lambda content=content: hashes(cloud) == holding(gone=b"gone", file=content), 60)
        gone.unlink()
        eventually(lambda: b"gone" in {record.path for record in cloud.read().records}, 30)
        clock.ahead = -3_600.0
        eventually(lambda: hashes(cloud) == holding(file=file.read_bytes()), 60)
    clocks = [record.clock for record in cloud.of(b"file")]
    assert len(clocks) == 3
    assert clocks == sorted(set(clocks))


def test_a_clock_that_was_set_back_while_the_agent_was_away_holds_nothing_up(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    ahead = SetClock()
    ahead.ahead = 86_400.0
    (config.root / "keep").write_bytes(b"keep")
    (config.root / "gone").write_bytes(b"gone")
    os.mkfifo(config.root / "fifo")
    with follow(clock=ahead, delete_hold_seconds=3_600.0) as running:
        eventually(lambda: len(hashes(cloud)) == 2 and running.status.walked)
        (config.root / "gone").unlink()
        eventually(lambda: running.status.held == 1)
    (config.root / "fifo").unlink()
    with follow():
        eventually(lambda: hashes(cloud) == holding(keep=b"keep") and cloud.exceptions() == {})


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_below_the_index_ends_the_agent_and_loses_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    for number in range(3_000):
        (config.root / f"{number:0200}").write_bytes(b"%d" % number)
    with small_disk(config.state_folder, "1m"):
        with (
            pytest.raises(Unavailable, match=r"the index in .* cannot be written: .*full") as full,
            follow() as running,
        ):
            eventually(lambda: cloud.read() and not running.thread.is_alive(), 30)
        assert "Make room on its disk" in full.value.advice
        subprocess.run(["mount", "-o", "remount,size=64m", config.state_folder], check=True)
        with follow() as running:
            eventually(lambda: len(hashes(cloud)) == 3_000 and running.status.pending == 0, 60)
    clocks = {record.clock: record for record in cloud.records}
    assert len(clocks) == len(set(cloud.records)), "a clock names two states"


def test_garbage_among_the_requests_is_passed_over(
    config: AgentConfig, follow: Any, kafka: Kafka, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "file").write_bytes(b"content")
    ours = SyncRequest(
        source=config.source, path=b"file", display="file", epoch=1, seq=1, reason=RequestReason.torn
    )  # fmt: skip
    newer = struct.pack(">bI", 0, max(codec.history()) + 1) + b"?"
    with follow() as running:
        eventually(lambda: hashes(cloud) == holding(file=b"content") and running.status.walked)
        producer = kafka.producer()
        for value in (None, b"", b"garbage", newer, codec.encode(ours)[:-1], codec.encode(ours)):
            producer.produce(kafka.physical(topics.SYNC_REQUESTS), value, ours.key())
        assert producer.flush(10) == 0
        eventually(lambda: len(cloud.read().of(b"file")) == 2)
    assert [record.kind for record in cloud.of(b"file")] == [ChangeKind.created, ChangeKind.modified]


def test_what_no_system_call_can_name_is_carried(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Folders so deep that the path has more than 4,096 bytes."""
    segment = "d" * 250
    above = os.open(config.root, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(segment, dir_fd=above)
        below = os.open(segment, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    descriptor = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=above)
    os.write(descriptor, b"deep")
    os.close(descriptor)
    path = "/".join([segment] * 20 + ["file"]).encode()
    assert len(path) > 4_096
    with follow(poll_seconds=1.0) as running:
        eventually(lambda: hashes(cloud) == {path: blake3(b"deep").digest()} and running.status.walked)
        os.rename("file", "renamed", src_dir_fd=above, dst_dir_fd=above)
        eventually(lambda: hashes(cloud) == {path.replace(b"file", b"renamed"): blake3(b"deep").digest()})
    os.close(above)


def test_a_relative_root_is_the_same_source(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Case 17: the second run, from another folder, sends nothing."""
    (config.root / "folder").mkdir()
    for name in ("a", "folder/b"):
        (config.root / name).write_bytes(name.encode())
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 2 and running.status.pending == 0)
    with follow(root=Path(os.path.relpath(config.root))) as running:
        eventually(lambda: cloud.read() and running.status.walked and running.status.files == 2)
    assert len(cloud.read().records) == 2
