"""fanotify: its events as fanotify(7) describes them and as this kernel gives them; and where it is refused."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Signal
from typing import Any

import pytest

from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch import fanotify_calls as calls
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.fanotify import FanotifyWatch
from headwater.producers.filesystem.watch.fanotify_calls import Event, Handle, events_in
from headwater.rules.errors import Refused

Eventually = Callable[..., Any]


def event(mask: int, *information: bytes) -> bytes:
    """struct fanotify_event_metadata (event_len, vers 3, metadata_len 24, mask, fd, pid), then its records."""
    records = b"".join(information)
    return struct.pack("=IBBHQii", 24 + len(records), 3, 0, 24, mask, -1, 4321) + records


def record(kind: int, handle: bytes, name: bytes | None = None) -> bytes:
    """struct fanotify_event_info_fid: header (type, pad, len), fsid, struct file_handle, name; padded to 4."""
    body = b"FILESYST" + struct.pack("=Ii", len(handle), 1) + handle + (b"" if name is None else name + b"\0")
    body += bytes(-len(body) % 4)
    return struct.pack("=BBH", kind, 0, 4 + len(body)) + body


def test_events_are_read_as_the_manual_lays_them_out() -> None:
    data = (
        event(0x100, record(2, b"directory", b"name\xff"))
        + event(0x40000004, record(1, b"object itself"), record(2, b"directory", b"."))
        + event(0x4000)
    )
    directory = Handle(b"FILESYST", 1, b"directory")
    assert list(events_in(data)) == [
        Event(calls.CREATE, directory, b"name\xff"),
        Event(calls.ON_DIRECTORY | calls.ATTRIB, directory, b"."),
        Event(calls.OVERFLOW, None, b""),
    ]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[tuple[Path, FanotifyWatch, DirtySet, Mounts]]:
    root = tmp_path / "root"
    root.mkdir()
    tree, dirty = Tree(root), DirtySet(1_000)
    with closing(Mounts(tree.root)) as mounts:
        try:
            made = FanotifyWatch(tree, mounts, dirty, Signal().set)
        except Refused as refused:
            pytest.skip(str(refused))
        made.start()
        yield root, made, dirty, mounts
        made.close()


def test_this_kernel_says_so_when_a_queue_overflowed(tmp_path: Path, mounted: Any) -> None:
    """The product's queue has no limit but memory; this group has one, and the same reading of its events."""
    with mounted(tmp_path, "-t", "tmpfs", "none"):
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            group = calls.initialise(calls.REPORT_DIRECTORY_AND_NAME | calls.NON_BLOCKING | calls.CLOSE_ON_EXEC)
            calls.mark_filesystem(group, calls.CREATE, folder)
            for number in range(int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text()) + 1):
                os.mknod(b"%d" % number, dir_fd=folder)
        except OSError as error:
            pytest.skip(f"fanotify: {error.strerror}")
        finally:
            os.close(folder)
        with os.fdopen(group, "rb", buffering=0) as events:
            read = [one for block in iter(lambda: events.read(1 << 20), None) for one in events_in(block)]
    assert [one for one in read if one.mask & calls.OVERFLOW] == [Event(calls.OVERFLOW, None, b"")]


def test_lost_events_make_everything_dirty(
    watch: tuple[Path, FanotifyWatch, DirtySet, Mounts], monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    root, made, dirty, _ = watch
    monkeypatch.setattr(calls, "events_in", lambda _: [Event(calls.OVERFLOW, None, b"")])
    (root / "any").touch()
    eventually(lambda: dirty.take(0).everything)
    assert made.overflows >= 1


def test_deep_folders_made_at_once_are_heard_without_being_added(
    watch: tuple[Path, FanotifyWatch, DirtySet, Mounts], eventually: Eventually
) -> None:
    root, _, dirty, _ = watch
    (root / "1/2/3/4/5").mkdir(parents=True)
    (root / "1/2/3/4/5/file").touch()
    eventually(lambda: b"1/2/3/4/5/file" in dirty.take(100).paths)
    (root / "1/2").rename(root / "moved")
    (root / "moved/3/4/5/another").touch()
    eventually(lambda: b"moved/3/4/5/another" in dirty.take(100).paths)


def test_a_filesystem_that_is_mounted_later_is_marked_before_it_is_listed(
    watch: tuple[Path, FanotifyWatch, DirtySet, Mounts], eventually: Eventually, mounted: Any
) -> None:
    root, made, dirty, _ = watch
    (root / "disk").mkdir()
    with mounted(root / "disk", "-t", "tmpfs", "none"):
        assert made.add(b"disk")
        (root / "disk/file").touch()
        eventually(lambda: b"disk/file" in dirty.take(100).paths)
        subprocess.run(["umount", root / "disk"], check=True)  # it holds nothing open
    assert made.add(b"disk")
    (root / "disk/below").touch()
    eventually(lambda: b"disk/below" in dirty.take(100).paths)


def test_what_a_mount_hides_is_not_heard(
    watch: tuple[Path, FanotifyWatch, DirtySet, Mounts], eventually: Eventually, mounted: Any
) -> None:
    root, made, dirty, _ = watch
    (root / "folder").mkdir()
    (root.parent / "view").mkdir()
    with mounted(root.parent / "view", "--bind", root), mounted(root / "folder", "-t", "tmpfs", "none"):
        assert made.add(b"folder")
        (root.parent / "view/folder/hidden").touch()
        (root / "last").touch()
        heard: set[bytes] = set()
        eventually(lambda: heard.update(dirty.take(100).paths) or b"last" in heard)
        assert b"folder/hidden" not in heard


def test_a_filesystem_without_handles_is_left_to_polling(
    watch: tuple[Path, FanotifyWatch, DirtySet, Mounts], mounted: Any
) -> None:
    root, made, _, _ = watch
    (root / "odd").mkdir()
    with mounted(root / "odd", "-t", "mqueue", "none"):
        assert not made.add(b"odd")
        assert made.limit is not None
        assert f"{root}/odd (mqueue)" in made.limit
        assert made.add(b"")
        assert made.unwatched == 1


WITHOUT = """
import ctypes, sys
from pathlib import Path
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.fanotify import FanotifyWatch
from headwater.rules.errors import Refused

libc = ctypes.CDLL(None, use_errno=True)
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(header, sets) == 0
sets[0] &= ~(1 << int(sys.argv[2]))
assert libc.capset(header, sets) == 0
tree = Tree(Path(sys.argv[1]))
try:
    FanotifyWatch(tree, Mounts(tree.root), DirtySet(1), lambda: None)
except Refused as refused:
    print(refused)
"""


@pytest.mark.parametrize(("number", "name"), [(21, "CAP_SYS_ADMIN"), (2, "CAP_DAC_READ_SEARCH")])
def test_a_missing_capability_is_named_with_the_way_out(tmp_path: Path, number: int, name: str) -> None:
    said = subprocess.check_output([sys.executable, "-c", WITHOUT, str(tmp_path), str(number)], text=True)
    assert name in said
    assert 'watch = "inotify"' in said


def test_an_old_kernel_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags that a kernel does not know are EINVAL: fanotify_init(2)."""

    class Old:
        def fanotify_init(self, *_: object) -> int:
            ctypes.set_errno(22)
            return -1

    monkeypatch.setattr(calls, "_libc", Old)
    with closing(Mounts(os.fsencode(tmp_path))) as mounts, pytest.raises(Refused, match=r"older than Linux 5\.9"):
        FanotifyWatch(Tree(tmp_path), mounts, DirtySet(1), Signal().set)


def test_a_root_that_cannot_be_marked_is_refused(tmp_path: Path, mounted: Any) -> None:
    with (
        mounted(tmp_path, "-t", "mqueue", "none"),
        closing(Mounts(os.fsencode(tmp_path))) as mounts,
        pytest.raises(Refused, match="mqueue"),
    ):
        FanotifyWatch(Tree(tmp_path), mounts, DirtySet(1), Signal().set)
