"""The mount table against the format that proc_pid_mountinfo(5) documents, and against real mounts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.producers.filesystem.mounts import Mount, Mounts, below, is_local, parse
from headwater.producers.filesystem.tree import Tree

Eventually = Callable[..., Any]

MANUAL = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
"""The example of proc_pid_mountinfo(5)."""

TABLE = rb"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:40 / /data rw shared:7 master:2 - nfs4 server:/export/data rw,vers=4.2
31 30 0:41 / /data/with\040space\011and\134backslash rw - fuse.sshfs me@there:/ rw
32 22 0:42 / /data/hidden rw - tmpfs tmpfs rw
33 30 8:17 /films /data/films rw - xfs /dev/sdb1 rw
34 33 8:33 / /data/films rw - btrfs /dev/sdc rw
35 22 0:50 / /database rw - cifs //server/share rw
"""


def test_the_manuals_example_is_read_as_the_manual_says() -> None:
    assert parse(MANUAL) == [Mount(36, 35, b"/mnt1", b"/mnt2", "ext3", b"/dev/root")]


def test_below_a_root_lie_the_mounts_that_a_walk_comes_upon() -> None:
    """/data/hidden was mounted before /data, /data/films twice: the kernel's walk sees neither first one."""
    found = {path: mount.kind for path, mount in below(b"/data", parse(TABLE)).items()}
    assert found == {b"": "nfs4", b"with space\tand\\backslash": "fuse.sshfs", b"films": "btrfs"}


@pytest.mark.parametrize(
    ("root", "kind", "inside"),
    [
        (b"/", "ext4", {b"proc", b"data", b"data/films", b"data/with space\tand\\backslash", b"database"}),
        (b"/data/films/2024", "btrfs", set()),
        (b"/home", "ext4", set()),
        (b"/datab", "ext4", set()),
        (b"/database/x", "cifs", set()),
    ],
)
def test_a_root_lies_on_the_nearest_mount_above_it(root: bytes, kind: str, inside: set[bytes]) -> None:
    found = below(root, parse(TABLE))
    assert found.pop(b"").kind == kind
    assert found.keys() == inside


def test_a_table_without_the_root_holds_nothing() -> None:
    assert below(b"/elsewhere", parse(MANUAL)) == {}


def test_mounts_come_and_go_and_each_is_told_once(tmp_path: Path, mounted: Any) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "folder").mkdir()
    with closing(Mounts(os.fsencode(tmp_path))) as mounts:
        assert (mounts.take_changes(), mounts.is_mount(b"disk"), mounts.is_mount(b"")) == (set(), False, False)
        with mounted(tmp_path / "disk", "-t", "tmpfs", "first"):
            assert mounts.is_mount(b"disk")
            assert mounts.take_changes() == {b"disk"}
            holder = mounts.holding(b"disk/a/b")
            assert holder is not None
            assert (holder.kind, holder.point) == ("tmpfs", os.fsencode(tmp_path / "disk"))
            with mounted(tmp_path / "folder", "--bind", tmp_path / "disk"):
                assert mounts.is_mount(b"folder")
        assert (mounts.is_mount(b"disk"), mounts.is_mount(b"folder")) == (False, False)
        assert mounts.take_changes() == {b"disk", b"folder"}
        with mounted(tmp_path / "disk", "-t", "tmpfs", "first"):
            assert not mounts.is_replaced(b"disk")
        with mounted(tmp_path / "disk", "-t", "tmpfs", "second"):
            assert mounts.is_replaced(b"disk")


def test_a_disk_and_memory_are_local_and_an_overlay_is_not(tmp_path: Path, mounted: Any) -> None:
    tree = Tree(tmp_path)
    for name in ("lower", "upper", "work", "merged", "memory"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    with mounted(tmp_path / "memory", "-t", "tmpfs", "none"):
        assert tree.is_local(b"memory")
    with mounted(tmp_path / "merged", "-t", "overlay", "overlay", "-o", layers):
        assert not tree.is_local(b"merged")


def test_what_is_not_known_to_be_local_is_not() -> None:
    descriptor = os.open("/proc", os.O_PATH)
    try:
        assert not is_local(descriptor)
    finally:
        os.close(descriptor)
