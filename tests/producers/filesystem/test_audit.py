"""Changes that moved no clock: they are found, named, and never become a version by themselves."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.producers.filesystem.audit import OTHER_BYTES, Audit
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.schemas.records import ChangeKind

Eventually = Callable[..., Any]
AUDIT = {"audit_cycle_seconds": 0.1, "audit_bytes_per_second": 10**9}


def carried(cloud: Any, running: Any) -> bool:
    return bool(cloud.read().newest()) and running.status.walked and running.status.pending == 0


def kinds(cloud: Any, path: bytes) -> list[ChangeKind]:
    return [record.kind for record in cloud.of(path)]


def test_bytes_that_changed_under_clocks_that_did_not_are_named_and_not_sent(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    for name in ("fine", "rotten"):
        (config.root / name).write_bytes(name.encode())
    with follow() as running:
        eventually(lambda: len(cloud.read().newest()) == 2 and carried(cloud, running))
    with sqlite3.connect(config.state_folder / "index.sqlite") as database:
        database.execute("UPDATE files SET hash = zeroblob(32) WHERE name = ?", (b"rotten",))
    database.close()
    with follow(**AUDIT):
        eventually(lambda: cloud.read().exceptions() == {b"rotten": OTHER_BYTES})
        looked_at_again = time.monotonic() + 1.0  # three retries and several audits
        eventually(lambda: cloud.read() and time.monotonic() > looked_at_again)
        assert cloud.exceptions() == {b"rotten": OTHER_BYTES}
        assert kinds(cloud, b"rotten") == [ChangeKind.created, ChangeKind.excepted]
        os.utime(config.root / "rotten")  # a person says: these bytes are meant
        eventually(lambda: cloud.read().exceptions() == {})
    assert kinds(cloud, b"rotten")[2:] == [ChangeKind.modified, ChangeKind.cleared]
    assert kinds(cloud, b"fine") == [ChangeKind.created]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The image of a small ext4 filesystem."""
    image = tmp_path / "disk.img"
    with open(image, "wb") as file:
        file.truncate(8 * 1024 * 1024)
    if subprocess.run(["mkfs.ext4", "-q", image], capture_output=True).returncode:
        pytest.skip("no mkfs.ext4 here")
    return image


def mount(image: Path, root: Path) -> None:
    if subprocess.run(["mount", "-o", "loop", image, root], capture_output=True).returncode:
        pytest.skip("this user may not mount a loop device")


def test_a_disk_that_returns_other_bytes_is_found_and_the_restored_file_ends_it(
    config: AgentConfig, follow: Any, cloud: Any, disk: Path, eventually: Eventually
) -> None:
    good = b"a frame of film, " * 1000
    mount(disk, config.root)
    try:
        (config.root / "film").write_bytes(good)
        with follow() as running:
            eventually(lambda: b"film" in cloud.read().newest() and carried(cloud, running))
        before = os.stat(config.root / "film")
        subprocess.run(["umount", config.root], check=True)
        image = bytearray(disk.read_bytes())
        place = image.index(good[:4096]) + 100
        image[place] ^= 1  # one bit rots
        disk.write_bytes(image)
        mount(disk, config.root)
        after = os.stat(config.root / "film")
        assert (before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_ino) == (
            after.st_size, after.st_mtime_ns, after.st_ctime_ns, after.st_ino,
        )  # fmt: skip
        assert (config.root / "film").read_bytes() != good
        with follow(**AUDIT):
            eventually(lambda: cloud.read().exceptions() == {b"film": OTHER_BYTES})
            (config.root / "film").write_bytes(good)
            eventually(lambda: cloud.read().exceptions() == {})
    finally:
        subprocess.run(["umount", config.root], capture_output=True)
    assert ChangeKind.modified not in kinds(cloud, b"film")


def test_a_request_to_send_again_does_not_carry_silent_damage(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "film").write_bytes(b"film")
    with follow() as running:
        eventually(lambda: carried(cloud, running))
    with sqlite3.connect(config.state_folder / "index.sqlite") as database:
        database.execute("UPDATE files SET hash = zeroblob(32)")
        database.execute("INSERT INTO requests VALUES (?, 'condemned')", (b"film",))
    database.close()
    with follow(audit_bytes_per_second=0):
        eventually(lambda: b"film" in cloud.read().exceptions(), within_seconds=15)
    assert cloud.exceptions()[b"film"].startswith("damaged: ")
    assert kinds(cloud, b"film") == [ChangeKind.created, ChangeKind.excepted]


def test_the_pace_is_kept_and_a_stop_does_not_wait_for_it(config: AgentConfig, tmp_path: Path) -> None:
    nobody: Any = None
    slow = replace(config, audit_bytes_per_second=4 * 1024 * 1024)
    audit = Audit(slow, nobody, nobody_index(config), nobody, nobody, nobody, time.time)
    with open(tmp_path / "file", "w+b") as file:
        file.write(bytes(2 * 1024 * 1024))
        file.flush()
        began = time.monotonic()
        assert audit._hash(file.fileno()) is not None
        assert time.monotonic() - began >= 0.5
        audit.close()
        assert audit._hash(file.fileno()) is None


def nobody_index(config: AgentConfig) -> Index:
    index = Index(config.state_folder, config.source)
    index.close()
    return index


def test_a_restart_goes_on_where_the_audit_was(config: AgentConfig) -> None:
    index = Index(config.state_folder, config.source)
    with index.transaction():
        index.audit.put((b"a/b", b"c"), 5.0)
    index.close()
    index = Index(config.state_folder, config.source)
    assert (index.audit.after, index.audit.cycle_at) == ((b"a/b", b"c"), 5.0)
    with index.transaction():
        index.audit.put(None, 9.0)
    index.close()
    index = Index(config.state_folder, config.source)
    assert (index.audit.after, index.audit.cycle_at) == (None, 9.0)
    index.close()
