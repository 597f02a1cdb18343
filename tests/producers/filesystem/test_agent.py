"""The agent on a real folder: the ordinary day's cases of notes/sync.md, by their numbers."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from blake3 import blake3

from headwater.producers.filesystem.config import AgentConfig
from headwater.schemas.records import ChangeKind, FileType, Guarantee

Eventually = Callable[..., Any]


def tree_of(root: Any) -> dict[bytes, bytes]:
    """Path to BLAKE3 of each regular file below ``root``, found independently of the product."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.fsencode(root))] = blake3(file.read()).digest()
    return found


def hashes(cloud: Any) -> dict[bytes, bytes]:
    return {path: record.hash for path, record in cloud.read().newest().items() if record.hash is not None}


def kinds(cloud: Any, path: bytes) -> list[ChangeKind]:
    return [record.kind for record in cloud.read().of(path)]


def is_idle(running: Any, cloud: Any) -> bool:
    """Everything that the agent found is on the log and verified, and it looks for nothing more."""
    cloud.read()
    status = running.status
    return status.walked and not (
        status.dirty or status.settling or status.reading or status.held or status.outbox or status.pending
    )


def test_a_tree_that_was_there_before_is_carried_whole(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "a/b").mkdir(parents=True)
    for number in range(50):
        (config.root / f"a/{number}.bin").write_bytes(os.urandom(number))
    (config.root / "a/b/deep.bin").write_bytes(b"deep")
    with follow() as running:
        eventually(lambda: hashes(cloud) == tree_of(config.root), 20)
        eventually(lambda: cloud.read() and running.status.walked and running.status.pending == 0, 20)
    assert {record.kind for record in cloud.records} == {ChangeKind.created}
    assert {record.guarantee for record in cloud.records} == {Guarantee.strong}
    assert {record.file_type for record in cloud.records} == {FileType.regular}
    assert sorted(record.seq for record in cloud.records) == list(range(1, 52))
    assert len(cloud.checkpoints) == 6


def test_new_directories_made_in_a_burst_are_found_to_their_bottom(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Cases 6 and 7: mkdir -p with a file at the bottom, and cp -a of a directory of ten files."""
    bottom = "/".join(str(number) for number in range(1, 11))
    copied = config.root.parent / "copied"
    copied.mkdir()
    for number in range(10):
        (copied / f"{number}.jpg").write_bytes(os.urandom(100))
    with follow() as running:
        eventually(lambda: running.status.walked)
        (config.root / bottom).mkdir(parents=True)
        (config.root / bottom / "file").write_bytes(b"bottom")
        subprocess.run(["cp", "-a", copied, config.root / "copied"], check=True)
        eventually(lambda: len(hashes(cloud)) == 11)
    assert hashes(cloud) == tree_of(config.root)


def test_names_are_bytes(config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually) -> None:
    """Cases 9 and 21."""
    names = [b"bad\xff.jpg", b"good.jpg", b"new\nline", b"re\rturn", b"\x08", "😀".encode(), b"a%2Fb", b"end ", b"b\\c"]
    names += [b"e\xcc\x81", b"\xc3\xa9", b"A.jpg", b"a.jpg", "好".encode() * 85]
    with follow() as running:
        eventually(lambda: running.status.walked)
        for name in names:
            (config.root / os.fsdecode(name)).write_bytes(name)
        eventually(lambda: len(hashes(cloud)) == len(names))
    assert hashes(cloud) == tree_of(config.root)
    assert {record.display for record in cloud.of(b"bad\xff.jpg")} == {"bad\\xff.jpg"}


def test_an_atomic_save_is_two_versions_and_editors_files_are_left_out(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Case 8."""
    target = config.root / "text"
    with follow():
        for content in (b"first", b"second"):
            (config.root / ".text.swp").write_bytes(b"swap")
            (config.root / "text.tmp").write_bytes(content)
            os.replace(config.root / "text.tmp", target)
            (config.root / ".text.swp").unlink()
            eventually(lambda content=content: hashes(cloud) == {b"text": blake3(content).digest()})
    assert kinds(cloud, b"text") == [ChangeKind.created, ChangeKind.modified]
    assert {record.path for record in cloud.records} == {b"text"}


def test_edits_that_hide_from_size_and_mtime_are_found(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Cases 11, 12 and 24: same size with mtime restored; replaced by an older file; truncated to nothing."""
    edited, replaced, emptied = (config.root / name for name in ("edited", "replaced", "emptied"))
    for path in (edited, replaced, emptied):
        path.write_bytes(b"12345")
    (config.root / "empty").touch()
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 4 and is_idle(running, cloud))
        before = edited.stat()
        edited.write_bytes(b"54321")
        os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
        older = config.root.parent / "older"
        older.write_bytes(b"67890")
        os.utime(older, (1, 1))
        os.replace(older, replaced)
        os.truncate(emptied, 0)
        eventually(lambda: hashes(cloud) == tree_of(config.root))
    assert hashes(cloud)[b"empty"] == hashes(cloud)[b"emptied"] == blake3(b"").digest()
    assert cloud.of(b"replaced")[-1].mtime_ns == 1_000_000_000


def test_the_same_edits_are_found_after_a_restart(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    edited, gone = config.root / "edited", config.root / "gone"
    edited.write_bytes(b"12345")
    gone.write_bytes(b"x")
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 2 and is_idle(running, cloud))
    before = edited.stat()
    edited.write_bytes(b"54321")
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    gone.unlink()
    (config.root / "new").write_bytes(b"new")
    with follow():
        eventually(lambda: hashes(cloud) == tree_of(config.root))
    assert {record.epoch for record in cloud.records} == {1}


def test_a_growing_file_is_carried_once_and_whole(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Cases 1 and 2: while it grows it is named as busy, and holds nobody up."""
    growing = config.root / "growing"
    with follow(), growing.open("wb", buffering=0) as file:
        (config.root / "other").write_bytes(b"other")
        for _ in range(20):
            file.write(os.urandom(100_000))
            eventually(lambda: cloud.read(), 1)
        eventually(lambda: b"other" in hashes(cloud))
        eventually(lambda: b"growing" in cloud.read().exceptions())
        assert b"growing" not in hashes(cloud)
        file.close()
        eventually(lambda: hashes(cloud) == tree_of(config.root))
        eventually(lambda: cloud.read().exceptions() == {})
    assert kinds(cloud, b"growing") == [ChangeKind.excepted, ChangeKind.created, ChangeKind.cleared]


def test_a_file_that_is_mapped_for_writing_is_not_read(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Its descriptor is closed, its mtime stands still: only the lease knows that somebody may write."""
    path = config.root / "mapped"
    path.write_bytes(b"\0" * 8192)
    with path.open("r+b") as file:
        # mmap.mmap would keep a duplicate of the descriptor: map by hand, so that only the mapping is left.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, 8192, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file.fileno(), 0)
    with follow():
        eventually(lambda: b"mapped" in cloud.read().exceptions())
        ctypes.memset(address, 7, 8192)
        assert b"mapped" not in hashes(cloud)
        libc.munmap(ctypes.c_void_p(address), 8192)
        eventually(lambda: hashes(cloud) == {b"mapped": blake3(b"\7" * 8192).digest()})


def test_a_touched_file_is_not_starved(config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually) -> None:
    path = config.root / "touched"
    path.write_bytes(b"content")

    def touched() -> bool:
        os.utime(path)
        return b"touched" in hashes(cloud)

    with follow(busy_seconds=30.0):
        eventually(touched, 20)


def test_renames_name_both_paths_and_read_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Case 13: a directory of many files, and a file over another one."""
    (config.root / "old/sub").mkdir(parents=True)
    for number in range(300):
        (config.root / f"old/{number}").write_bytes(os.urandom(50))
    (config.root / "old/sub/x").write_bytes(b"x")
    (config.root / "a").write_bytes(b"content of a")
    (config.root / "b").write_bytes(b"content of b")
    with follow(delete_hold_seconds=20) as running:
        eventually(lambda: len(hashes(cloud)) == 303 and is_idle(running, cloud), 20)
        (config.root / "old").rename(config.root / "new")
        os.replace(config.root / "a", config.root / "b")
        eventually(lambda: hashes(cloud) == tree_of(config.root), 20)
        (config.root / "new/sub/later").write_bytes(b"later")
        eventually(lambda: hashes(cloud) == tree_of(config.root))
        eventually(lambda: is_idle(running, cloud))
    moved = [record for record in cloud.records if record.kind is ChangeKind.renamed]
    assert len(moved) == 302
    assert all(record.from_path == record.path.replace(b"new", b"old", 1) for record in moved if record.path != b"b")
    assert cloud.of(b"b")[-1].from_path == b"a"
    assert not [record for record in cloud.records if record.kind is ChangeKind.deleted]


def test_a_rename_while_the_agent_was_away_is_a_rename(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "a").write_bytes(b"moves")
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 1 and is_idle(running, cloud))
    (config.root / "a").rename(config.root / "b")
    with follow() as running:
        eventually(lambda: hashes(cloud) == tree_of(config.root) and is_idle(running, cloud))
    assert kinds(cloud, b"b") == [ChangeKind.renamed]


def test_hard_links_and_duplicates_are_paths_with_one_content(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """Case 29."""
    (config.root / "one").write_bytes(b"linked")
    with follow() as running:
        eventually(lambda: is_idle(running, cloud) and hashes(cloud))
        os.link(config.root / "one", config.root / "two")
        os.link(config.root / "one", config.root / "three")
        (config.root / "copy").write_bytes(b"linked")
        eventually(lambda: len(hashes(cloud)) == 4)
        eventually(lambda: is_idle(running, cloud))
        os.chmod(config.root / "copy", 0o600)
        eventually(lambda: kinds(cloud, b"copy")[-1] is ChangeKind.metadata)
    assert set(hashes(cloud).values()) == {blake3(b"linked").digest()}
    assert cloud.of(b"copy")[-1].mode == 0o600
    assert ChangeKind.renamed not in {record.kind for record in cloud.records}


def test_a_write_through_one_hard_link_is_found_under_every_name(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """The kernel tells only the name that was used."""
    (config.root / "folder").mkdir()
    (config.root / "one").write_bytes(b"before")
    os.link(config.root / "one", config.root / "folder/two")
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 2 and is_idle(running, cloud))
        os.truncate(config.root / "one", 0)
        eventually(lambda: hashes(cloud) == tree_of(config.root))


@pytest.mark.parametrize("goes", ["unlink", "replaced", "folder"])
def test_a_write_through_a_hard_link_that_went_at_once_is_found_under_the_other_names(
    goes: str, config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """When the agent looks, the name that the kernel told leads to the file no more."""
    used, draft = config.root / "used", config.root / "draft"
    (config.root / "folder").mkdir()
    used.write_bytes(b"before")
    os.link(used, config.root / "folder/two")
    os.link(used, config.root / "folder/three")
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 3 and is_idle(running, cloud))
        draft.write_bytes(b"another file")
        used.write_bytes(b"after!")
        if goes == "replaced":
            draft.replace(used)
        else:
            used.unlink()
        if goes == "folder":
            used.mkdir()
        eventually(lambda: hashes(cloud) == tree_of(config.root))


def test_links_are_recorded_and_specials_are_named(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "link").symlink_to("nowhere")
    (config.root / "folder-link").symlink_to("/etc")
    os.mkfifo(config.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(config.root / "socket"))
        with follow():
            eventually(lambda: set(cloud.read().exceptions()) == {b"fifo", b"socket"})
            eventually(lambda: set(cloud.read().newest()) == {b"link", b"folder-link"})
            (config.root / "fifo").unlink()
            eventually(lambda: set(cloud.read().exceptions()) == {b"socket"})
            (config.root / "link").unlink()
            (config.root / "link").symlink_to("elsewhere")
            eventually(lambda: cloud.read().newest()[b"link"].link_target == b"elsewhere")
    assert cloud.newest()[b"folder-link"].file_type is FileType.symlink


def test_deletes_are_held_and_then_said(config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually) -> None:
    (config.root / "keep").write_bytes(b"keep")
    (config.root / "tree/below").mkdir(parents=True)
    for number in range(20):
        (config.root / f"tree/below/{number}").write_bytes(os.urandom(10))
    (config.root / "file").write_bytes(b"file")
    with follow() as running:
        eventually(lambda: len(hashes(cloud)) == 22 and is_idle(running, cloud))
        subprocess.run(["rm", "-r", config.root / "tree", config.root / "file"], check=True)
        eventually(lambda: running.status.held == 21)
        assert len(hashes(cloud)) == 22
        eventually(lambda: hashes(cloud) == tree_of(config.root))
    deleted = [record for record in cloud.records if record.kind is ChangeKind.deleted]
    assert len(deleted) == len({record.path for record in deleted}) == 21
    assert all(record.hash is None and record.size == 0 for record in deleted)


@pytest.mark.parametrize("loss", ["empty", "missing"])
def test_an_absent_disk_deletes_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually, loss: str
) -> None:
    """Case 14: the agent halts, says why, and goes on once the disk is back."""
    (config.root / "folder").mkdir()
    for name in ("a", "folder/b"):
        (config.root / name).write_bytes(name.encode())
    away = config.root.parent / "away"
    with follow(delete_hold_seconds=0.2) as running:
        eventually(lambda: len(hashes(cloud)) == 2 and is_idle(running, cloud))
        config.root.rename(away)
        if loss == "empty":
            config.root.mkdir()
        assert loss in eventually(lambda: running.status.halted)
        long_after_the_hold = time.monotonic() + 1.0
        eventually(lambda: cloud.read() and time.monotonic() > long_after_the_hold)
        if loss == "empty":
            config.root.rmdir()
        away.rename(config.root)
        (config.root / "c").write_bytes(b"c")
        eventually(lambda: hashes(cloud) == tree_of(config.root))
        eventually(lambda: is_idle(running, cloud) and running.status.halted is None)
    assert ChangeKind.deleted not in {record.kind for record in cloud.records}


def test_large_files_are_cut_and_every_part_is_said(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    content = os.urandom(70 * 1024 * 1024)
    (config.root / "large").write_bytes(content)
    with follow():
        change = eventually(lambda: cloud.read().of(b"large"), 20)[0]
        eventually(lambda: len(cloud.read().parts) == change.parts)
    parts = sorted(cloud.parts, key=lambda part: part.index)
    assert change.hash == blake3(content).digest()
    assert [part.index for part in parts] == list(range(change.parts))
    assert sum(part.length for part in parts) == len(content)
    for part in parts:
        assert part.part_hash == blake3(content[part.offset : part.offset + part.length]).digest()
        assert (part.hash, part.size, part.count, part.clock) == (change.hash, len(content), len(parts), change.clock)
