"""Where events do not come, or files hide: polling, the weak guarantee, and mounts that come and go."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.settle import Writers, probe_writers
from headwater.schemas.records import ChangeKind, Guarantee

Eventually = Callable[..., Any]


def paths(cloud: Any) -> set[bytes]:
    return set(cloud.read().newest())


def let_pass(seconds: float, cloud: Any, eventually: Eventually) -> None:
    """Time in which nothing should happen."""
    until = time.monotonic() + seconds
    eventually(lambda: cloud.read() and time.monotonic() > until, seconds + 10)


@contextmanager
def fuse(behind: Path, folder: Path) -> Iterator[None]:
    """``folder`` shows what lies ``behind`` through a FUSE filesystem: changes behind it make no events there."""
    bindfs = shutil.which("bindfs")
    if bindfs is None:
        pytest.skip("no FUSE filesystem here to test with: bindfs is not installed")
    options = ["-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0"]
    done = subprocess.run([bindfs, *options, behind, folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"bindfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_what_another_host_writes_is_found_within_one_interval_and_called_weak(
    config: AgentConfig, tmp_path: Path, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """The far side of a FUSE mount stands for the other client of a file server: no event, no lease tells of it."""
    far = tmp_path / "far"
    far.mkdir()
    (far / "before").write_bytes(b"before")
    (config.root / "nas").mkdir()
    (config.root / "local").write_bytes(b"local")
    with fuse(far, config.root / "nas"), follow(poll_seconds=0.5, delete_hold_seconds=0.3) as running:
        eventually(lambda: paths(cloud) == {b"local", b"nas/before"} and running.status.walked)
        (far / "folder").mkdir()
        (far / "folder/new").write_bytes(b"new")
        (far / "before").write_bytes(b"changed")
        eventually(lambda: paths(cloud) == {b"local", b"nas/before", b"nas/folder/new"}, 20)
        eventually(lambda: len(cloud.read().of(b"nas/before")) == 2)
        (far / "before").unlink()
        eventually(lambda: paths(cloud) == {b"local", b"nas/folder/new"}, 20)
        status = eventually(lambda: running.status if running.status.files == 2 else None)
        assert status.weak == 1
        (polled,) = status.polled
        assert polled.startswith(f"{config.root}/nas: fuse")
    guarantees = {path: record.guarantee for path, record in cloud.newest().items()}
    assert guarantees == {b"local": Guarantee.strong, b"nas/folder/new": Guarantee.weak}


def test_a_file_that_is_written_behind_fuse_is_read_once_it_is_old_enough(
    config: AgentConfig, tmp_path: Path, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    far = tmp_path / "far"
    far.mkdir()
    with fuse(far, config.root), follow(poll_seconds=0.2, weak_settle_seconds=1.5, busy_seconds=60) as running:
        with (far / "growing").open("wb", buffering=0) as file:
            for _ in range(20):
                file.write(b"x" * 1000)
                let_pass(0.15, cloud, eventually)
                assert not cloud.records
        eventually(lambda: paths(cloud) == {b"growing"}, 20)
        assert running.status.exceptions == 0
    assert [(record.kind, record.size) for record in cloud.records] == [(ChangeKind.created, 20_000)]


@pytest.fixture
def overlay(tmp_path: Path, mounted: Any) -> Iterator[Path]:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/file").write_bytes(bytes(9_000))
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    with mounted(tmp_path / "merged", "-t", "overlay", "overlay", "-o", layers):
        yield tmp_path / "merged"


@contextmanager
def mapped_writable(path: Path) -> Iterator[None]:
    """The file mapped for writing, and no descriptor of it (the mmap module would keep one)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    descriptor = os.open(path, os.O_RDWR)
    address = libc.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    os.close(descriptor)
    assert address not in (None, ctypes.c_void_p(-1).value)
    try:
        yield
    finally:
        libc.munmap(address, 4096)


def probed(path: Path) -> Writers:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return probe_writers(descriptor)
    finally:
        os.close(descriptor)


def test_a_writable_mapping_alone_is_refused_on_a_disk_and_never_believed_absent_on_an_overlay(
    tmp_path: Path, overlay: Path
) -> None:
    (tmp_path / "plain").write_bytes(bytes(9_000))
    with mapped_writable(tmp_path / "plain"):
        assert probed(tmp_path / "plain") is Writers.some
    assert probed(tmp_path / "plain") is Writers.none
    with (overlay / "file").open("r+b"):
        assert probed(overlay / "file") is Writers.some
    with mapped_writable(overlay / "file"):
        assert probed(overlay / "file") is not Writers.none


def test_a_file_that_stays_mapped_writable_is_named_and_not_read(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "mapped").write_bytes(bytes(9_000))
    with mapped_writable(config.root / "mapped"), follow() as running:
        eventually(lambda: cloud.read().exceptions().get(b"mapped", "").startswith("busy"))
        assert paths(cloud) == set()
    with follow():
        eventually(lambda: paths(cloud) == {b"mapped"} and not cloud.exceptions())
    assert running.status.weak == 0


def test_directories_beyond_the_limit_of_watches_are_polled_and_named(
    config: AgentConfig,
    kafka: Kafka,
    catalog: Catalog,
    cloud: Any,
    eventually: Eventually,
    few_watches: Callable[[int], list[str]],
) -> None:
    for name in ("a", "b", "c"):
        (config.root / name).mkdir()
        (config.root / name / "before").write_bytes(name.encode())
    settings = asdict(replace(config, poll_seconds=0.3)) | {
        "root": str(config.root),
        "state_folder": str(config.state_folder),
    }
    given = {
        "kafka": kafka.config.bootstrap_servers,
        "prefix": kafka.config.prefix,
        "catalog": catalog.config.dsn,
        "config": settings,
    }
    script = Path(__file__).with_name("agent_process.py")
    command = [*few_watches(2), sys.executable, str(script), "none", json.dumps(given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            eventually(lambda: len(paths(cloud)) == 3, 30)
            for name in ("a", "b", "c"):
                (config.root / name / "after").write_bytes(name.encode())
            eventually(lambda: len(paths(cloud)) == 6, 30)
        finally:
            child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=30)
    status = json.loads(output.splitlines()[-1])
    assert status["unwatched"] == 2
    (polled,) = status["polled"]
    assert polled.startswith(f"{config.root}/")
    assert "and 1 more: beyond the kernel's limit of inotify watches" in polled
    assert {record.guarantee for record in cloud.newest().values()} == {Guarantee.strong}


def test_a_mount_over_a_known_folder_hides_its_files_and_deletes_none(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually, mounted: Any
) -> None:
    (config.root / "folder/sub").mkdir(parents=True)
    known = {b"folder/file", b"folder/sub/file", b"plain"}
    for path in known:
        (config.root / os.fsdecode(path)).write_bytes(path)
    with follow(delete_hold_seconds=0.2, reconcile_seconds=1) as running:
        eventually(lambda: paths(cloud) == known and running.status.walked)
        with mounted(config.root / "folder", "-t", "tmpfs", "none"):
            (config.root / "folder/sub").mkdir()
            (config.root / "folder/sub/stranger").write_bytes(b"of another disk")
            eventually(lambda: cloud.read().exceptions().get(b"folder", "").startswith("mounted over"))
            let_pass(2.5, cloud, eventually)
            assert (paths(cloud), running.status.held) == (known, 0)
            (config.root / "plain").write_bytes(b"goes on")
            eventually(lambda: len(cloud.read().of(b"plain")) == 2)
        eventually(lambda: cloud.read().exceptions() == {})
        (config.root / "folder/file").unlink()
        eventually(lambda: paths(cloud) == known - {b"folder/file"})
    assert sum(record.kind is ChangeKind.deleted for record in cloud.records) == 1


def test_a_folder_of_the_same_disk_that_is_no_longer_bound_deletes_nothing(
    config: AgentConfig, tmp_path: Path, follow: Any, cloud: Any, eventually: Eventually, mounted: Any
) -> None:
    """Device numbers do not tell: both sides of the mount are one filesystem."""
    (tmp_path / "films").mkdir()
    (tmp_path / "films/file").write_bytes(b"film")
    (config.root / "bound").mkdir()
    (config.root / "plain").write_bytes(b"plain")
    with mounted(config.root / "bound", "--bind", tmp_path / "films"), follow(delete_hold_seconds=0.2) as running:
        eventually(lambda: paths(cloud) == {b"plain", b"bound/file"} and running.status.walked)
        subprocess.run(["umount", config.root / "bound"], check=True)
        eventually(lambda: cloud.read().exceptions().get(b"bound", "").startswith("unmounted"))
        let_pass(1.0, cloud, eventually)
    with mounted(config.root / "bound", "--bind", tmp_path / "films"), follow(delete_hold_seconds=0.2):
        eventually(lambda: cloud.read().exceptions() == {})
    assert ChangeKind.deleted not in {record.kind for record in cloud.records}


def test_a_delete_that_was_held_when_its_disk_went_waits_for_the_disk(
    config: AgentConfig, tmp_path: Path, follow: Any, cloud: Any, eventually: Eventually, mounted: Any
) -> None:
    (tmp_path / "films").mkdir()
    (config.root / "bound").mkdir()
    for name in ("gone", "kept"):
        (tmp_path / "films" / name).write_bytes(name.encode())
    with follow(delete_hold_seconds=1.5) as running:
        with mounted(config.root / "bound", "--bind", tmp_path / "films"):
            eventually(lambda: paths(cloud) == {b"bound/gone", b"bound/kept"} and running.status.walked)
            (tmp_path / "films/gone").unlink()
            eventually(lambda: running.status.held == 1)
        eventually(lambda: running.status.held == 0)
        let_pass(1.0, cloud, eventually)
        assert paths(cloud) == {b"bound/gone", b"bound/kept"}
        with mounted(config.root / "bound", "--bind", tmp_path / "films"):
            eventually(lambda: paths(cloud) == {b"bound/kept"}, 20)


def test_another_disk_at_the_same_place_deletes_nothing_while_the_agent_lives(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually, mounted: Any
) -> None:
    disk = config.root / "disk"
    disk.mkdir()
    (config.root / "plain").write_bytes(b"plain")
    with follow(delete_hold_seconds=0.2) as running:
        with mounted(disk, "-t", "tmpfs", "first"):
            (disk / "file").write_bytes(b"on the first disk")
            eventually(lambda: paths(cloud) == {b"plain", b"disk/file"} and running.status.walked)
        with mounted(disk, "-t", "tmpfs", "second"):
            eventually(lambda: b"disk" in cloud.read().exceptions())
            let_pass(1.0, cloud, eventually)
    assert ChangeKind.deleted not in {record.kind for record in cloud.records}


def test_an_agent_that_hears_by_fanotify_follows_every_kind_of_change(
    config: AgentConfig, tmp_path: Path, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """No directory is listed again in an hour, so all of this was heard."""
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    (tmp_path / "elsewhere/deep/file").write_bytes(b"from elsewhere")
    try:
        running = follow(watch="fanotify", delete_hold_seconds=0.3)
        with running as agent:
            eventually(lambda: agent.status.walked)
            (config.root / "a/b/c").mkdir(parents=True)
            (config.root / "a/b/c/file").write_bytes(b"deep")
            (config.root / os.fsdecode(b"bad\xff.jpg")).write_bytes(b"bytes")
            (tmp_path / "elsewhere/deep").rename(config.root / "deep")
            eventually(lambda: paths(cloud) == {b"a/b/c/file", b"bad\xff.jpg", b"deep/file"})
            (config.root / "a/b").rename(config.root / "moved")
            eventually(lambda: paths(cloud) == {b"moved/c/file", b"bad\xff.jpg", b"deep/file"})
            with (config.root / "moved/c/file").open("r+b") as file:
                file.write(b"edit")
            eventually(lambda: cloud.read().newest()[b"moved/c/file"].kind is ChangeKind.modified)
            (config.root / "deep").rename(tmp_path / "elsewhere/deep")
            (config.root / os.fsdecode(b"bad\xff.jpg")).unlink()
            eventually(lambda: paths(cloud) == {b"moved/c/file"})
            assert (agent.status.watch, agent.status.polled) == ("fanotify", ())
    except Exception as error:
        if "fanotify gives this agent no events" in str(error):
            pytest.skip(str(error))
        raise
