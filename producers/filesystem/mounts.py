"""Which filesystems lie at and below the root: proc_pid_mountinfo(5), and what each kind can promise.

Two things that a local filesystem does cannot be relied on elsewhere: that whatever changes a file makes an event
here, and that whoever writes a file stands in the way of a read lease. On a network filesystem, on FUSE and below an
overlay others change files unseen; and on an overlay a writable mapping outlives its descriptor without refusing a
lease (measured on Linux 6.18). There directories are polled and files get the weak guarantee. So does every kind that
is not known to be local.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

_LOCAL = {
    0xEF53,  # ext2, ext3, ext4
    0x58465342,  # XFS
    0x9123683E,  # Btrfs
    0x2FC12FC1,  # ZFS
    0xCA451A4E,  # bcachefs
    0xF2F52010,  # F2FS
    0x01021994,  # tmpfs
    0x858458F6,  # ramfs
    0x3153464A,  # JFS
    0x52654973,  # ReiserFS
    0x3434,  # NILFS
    0x4D44,  # FAT
    0x2011BAB0,  # exFAT
    0x7366746E,  # NTFS3
    0x4244,  # HFS
    0x482B,  # HFS+
    0x9660,  # ISO 9660
    0x15013346,  # UDF
    0x73717368,  # SquashFS
    0xE0F5E1E2,  # EROFS
}
"""``f_type`` of the filesystems that only this kernel changes: statfs(2) and linux/magic.h."""

_STATFS_BYTES = 120
"""Size of struct statfs on 64-bit Linux; ``f_type`` is its first word."""


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def is_local(descriptor: int) -> bool:
    """Is an open file or directory on a filesystem where events and leases tell the truth? Raises OSError."""
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc().fstatfs(descriptor, found):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return ctypes.c_ulong.from_buffer(found).value in _LOCAL


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the mount table. ``subtree``: the directory of the filesystem that is seen at ``point``."""

    number: int
    parent: int
    subtree: bytes
    point: bytes
    kind: str
    origin: bytes

    def is_same(self, other: Mount) -> bool:
        """Does the other one show the same files, as far as the table tells? Numbers are given anew at each mount."""
        mine, others = (self.kind, self.origin, self.subtree), (other.kind, other.origin, other.subtree)
        return mine == others


_NOWHERE = -1
"""In place of the number of a mount that is not in the table."""


def parse(table: bytes) -> list[Mount]:
    """The mount table as proc_pid_mountinfo(5) describes it, in its order."""
    mounts = []
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        number, parent, _, subtree, point, *_ = before.split(b" ")
        kind, origin, *_ = after.split(b" ")
        mounts.append(
            Mount(int(number), int(parent), _unescaped(subtree), _unescaped(point), kind.decode(), _unescaped(origin))
        )
    return mounts


def _unescaped(text: bytes) -> bytes:
    """Space, tab, newline and backslash are written as three octal digits."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), text)


def below(root: bytes, table: Iterable[Mount]) -> dict[bytes, Mount]:
    """The mounts that a walk down from ``root`` (absolute) comes upon, by their paths relative to it.

    The one that holds the root itself is at ``b""``. What lies hidden under a later mount is left out, as the kernel's
    own walk does: from the outermost mount on, it enters the first mount on its way, again and again.
    """
    mounts = list(table)
    numbers = {mount.number for mount in mounts}
    inside: dict[int, list[Mount]] = {}
    for mount in mounts:
        is_outermost = mount.parent not in numbers or mount.parent == mount.number
        inside.setdefault(_NOWHERE if is_outermost else mount.parent, []).append(mount)
    found: dict[bytes, Mount] = {}
    for mount in sorted(mounts, key=lambda mount: len(mount.point)):
        if _is_within(root, mount.point) and mount == _reached(mount.point, inside):
            found[mount.point[len(root) :].lstrip(b"/")] = mount
    holder = _reached(root, inside)
    return {b"": holder, **found} if holder else found


def _is_within(directory: bytes, point: bytes) -> bool:
    return point == directory or point.startswith(directory.rstrip(b"/") + b"/")


def _reached(path: bytes, inside: dict[int, list[Mount]]) -> Mount | None:
    """The mount that the kernel is in when it has walked to ``path``."""
    here, number = None, _NOWHERE
    while True:
        on_the_way = [mount for mount in inside.get(number, ()) if _is_within(mount.point, path)]
        if not on_the_way:
            return here
        here = min(on_the_way, key=lambda mount: len(mount.point))
        number = here.number


class Mounts:
    """The mounts at and below one root, as of now: the kernel is asked whether anything was mounted or unmounted
    (a poll of the table, about a microsecond) whenever something is asked here. Not safe for threads.
    """

    def __init__(self, root: bytes) -> None:
        """Raises OSError where /proc is not mounted."""
        self._root = root
        self._table = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._table, select.POLLPRI)
        self._moved: set[bytes] = set()
        self._current = self._read()
        self._first = dict(self._current)

    def _read(self) -> dict[bytes, Mount]:
        os.lseek(self._table, 0, os.SEEK_SET)
        blocks = iter(lambda: os.read(self._table, 1 << 20), b"")
        return below(self._root, parse(b"".join(blocks)))

    def current(self) -> dict[bytes, Mount]:
        """Path relative to the root, and what is mounted there; ``b""`` is the one that holds the root."""
        if self._poll.poll(0):
            before, self._current = self._current, self._read()
            self._first = {**self._current, **self._first}
            self._moved |= {path for path, _ in before.items() ^ self._current.items()}
        return self._current

    def is_mount(self, path: bytes) -> bool:
        """Does another filesystem, or another part of one, begin at this path?"""
        mount = self.current().get(path)
        return mount is not None and (bool(path) or mount.point == self._root)

    def is_replaced(self, path: bytes) -> bool:
        """Is something else mounted there than what was first seen to be since this process started?"""
        mount = self.current().get(path)
        return mount is not None and not mount.is_same(self._first[path])

    def holding(self, path: bytes) -> Mount | None:
        """The mount that the path lies on; None where the table does not show it (in some chroots)."""
        current = self.current()
        while path and path not in current:
            path = path.rpartition(b"/")[0]
        return current.get(path)

    def take_changes(self) -> set[bytes]:
        """Paths where something was mounted or unmounted since the last call."""
        self.current()
        moved, self._moved = self._moved, set()
        return moved

    def close(self) -> None:
        os.close(self._table)
