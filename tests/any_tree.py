"""Any tree, and anything that may happen to it: operations that hypothesis draws, done for real below a folder.

Every operation finds something to do in whatever tree there is: its numbers choose among what is there now. What a
file held whenever nobody had it open for writing is remembered: nothing else may ever be said of it.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3
from hypothesis import settings
from hypothesis import strategies as st

DEEP = settings.get_current_profile_name() == "deep"

ODD_NAMES = (
    *(b"new\nline", b"re\rturn", b"\x08", b"bad\xff.jpg", b"a%2Fb", b"end ", b"b\\c", b"-rf", b"~", b".hidden"),
    *("é".encode(), b"e\xcc\x81", b"A.jpg", b"a.jpg", "😀".encode(), b"x" * 255, "好".encode() * 85, b"\xff" * 255),
)
NAMES = st.one_of(
    st.sampled_from([b"n%d" % number for number in range(8)]),
    st.sampled_from([b"n%d" % number for number in range(8)]),
    st.sampled_from(ODD_NAMES),
    st.binary(min_size=1, max_size=5).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b"..")),
)
CONTENTS = st.one_of(st.just(b""), st.binary(min_size=1, max_size=40), st.sampled_from([b"same bytes", b"12345"]))
LONGEST_PATH = 3_000
"""Bytes: what lies deeper cannot be named in one system call any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """One operation: ``which`` chooses a file or folder, ``where`` the folder for ``name``."""

    kind: str
    which: int
    where: int
    name: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """What a path is: the hash of a file, the target of a link."""

    content: bytes
    mtime_ns: int
    mode: int
    uid: int
    gid: int


def state_of(root: bytes) -> dict[bytes, Found]:
    """Every file and link below ``root``, by its path there."""
    found = {}
    for folder, below, names in os.walk(root):
        for name in (*below, *names):
            path = os.path.join(folder, name)
            entry = os.lstat(path)
            if stat.S_ISLNK(entry.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(entry.st_mode):
                content = _hash(path)
            else:
                continue
            attributes = (entry.st_mtime_ns, stat.S_IMODE(entry.st_mode), entry.st_uid, entry.st_gid)
            found[os.path.relpath(path, root)] = Found(content, *attributes)
    return found


def _hash(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return blake3(file.read()).digest()


class AnyTree:
    """The tree below ``root``. ``anchor``, a file that no operation touches, keeps the root from ever being empty."""

    def __init__(self, root: Path, outside: Path) -> None:
        self.root = os.fsencode(root)
        self.outside = os.fsencode(outside)
        self.whole: set[bytes] = set()
        self._writers: list[tuple[int, int]] = []  # descriptor, inode
        self._strays = 0
        self._write(self._path(b"anchor"), b"never empty")

    def _path(self, relative: bytes) -> bytes:
        return os.path.join(self.root, relative)

    def _all(self) -> list[bytes]:
        """Every path below the root but the anchor, in one order whatever the filesystem's."""
        found = [os.path.join(folder, name) for folder, below, names in os.walk(self.root) for name in (*below, *names)]
        return sorted(path for path in found if path != self._path(b"anchor"))

    def _files(self) -> list[bytes]:
        return [path for path in self._all() if stat.S_ISREG(os.lstat(path).st_mode)]

    def _folders(self) -> list[bytes]:
        return [path for path in self._all() if stat.S_ISDIR(os.lstat(path).st_mode)]

    def _target(self, change: Change) -> bytes:
        folders = [self.root, *self._folders()]
        return os.path.join(folders[change.where % len(folders)], change.name)

    # What is there, found independently of the product

    def state(self) -> dict[bytes, Found]:
        """Every file and link."""
        return state_of(self.root)

    def specials(self) -> set[bytes]:
        """What can only be named: fifos."""
        return {os.path.relpath(path, self.root) for path in self._all() if stat.S_ISFIFO(os.lstat(path).st_mode)}

    # Operations

    def do(self, change: Change) -> None:
        """Do it, or nothing where it does not apply to what is there."""
        with suppress(FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError):
            OPERATIONS[change.kind](self, change)

    def _file(self, change: Change) -> bytes:
        if not (files := self._files()):
            raise FileNotFoundError
        return files[change.which % len(files)]

    def _folder(self, change: Change) -> bytes:
        if not (folders := self._folders()):
            raise FileNotFoundError
        return folders[change.which % len(folders)]

    def _write(self, path: bytes, content: bytes, flags: int = os.O_CREAT | os.O_TRUNC, at: int = 0) -> None:
        """A whole write: what is there once the descriptor is closed, unless another writer has it open."""
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o644)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.pwrite(descriptor, content, at)
                self._note(descriptor)
        finally:
            os.close(descriptor)

    def _note(self, descriptor: int, closing: int | None = None) -> None:
        entry = os.fstat(descriptor)
        if not any(inode == entry.st_ino for writer, inode in self._writers if writer != closing):
            self.whole.add(blake3(os.pread(descriptor, entry.st_size, 0)).digest())

    def create(self, change: Change) -> None:
        target = self._target(change)
        if os.path.islink(target):
            raise FileExistsError
        self._write(target, change.content)

    def append(self, change: Change) -> None:
        path = self._file(change)
        self._write(path, change.content, 0, os.path.getsize(path))

    def overwrite(self, change: Change) -> None:
        self._write(self._file(change), change.content, 0)

    def overwrite_unseen(self, change: Change) -> None:
        """Same size, and the old mtime put back."""
        path = self._file(change)
        before = os.stat(path)
        self._write(path, change.content[: before.st_size], 0)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def overwrite_mapped(self, change: Change) -> None:
        path = self._file(change)
        if not os.path.getsize(path):
            return
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            content = change.content[: len(mapped)]
            mapped[: len(content)] = content
            self._note(file.fileno())

    def truncate(self, change: Change) -> None:
        path = self._file(change)
        os.truncate(path, len(change.content))
        self._write(path, b"", 0)

    def rename(self, change: Change) -> None:
        os.rename(self._file(change), self._target(change))

    def replace(self, change: Change) -> None:
        """An editor's save: a new file beside the tree, then moved over the old one."""
        beside = self._stray()
        self._write(beside, change.content)
        os.replace(beside, self._target(change))

    def replace_by_older(self, change: Change) -> None:
        """Of the same size where it can be, with an mtime of long ago."""
        path, beside = self._file(change), self._stray()
        self._write(beside, change.content.ljust(os.path.getsize(path))[: os.path.getsize(path)])
        os.utime(beside, (1, 1))
        os.replace(beside, path)

    def delete(self, change: Change) -> None:
        paths = [path for path in self._all() if not stat.S_ISDIR(os.lstat(path).st_mode)]
        if paths:
            os.unlink(paths[change.which % len(paths)])

    def link(self, change: Change) -> None:
        os.link(self._file(change), self._target(change))

    def symlink(self, change: Change) -> None:
        os.symlink(change.name, self._target(change))

    def fifo(self, change: Change) -> None:
        os.mkfifo(self._target(change))

    def copy(self, change: Change) -> None:
        with open(self._file(change), "rb") as file:
            content = file.read()
        self.create(Change("create", 0, change.where, change.name, content))

    def chmod(self, change: Change) -> None:
        os.chmod(self._file(change), 0o400 + change.where % 0o200)

    def utime(self, change: Change) -> None:
        """To now, to long ago, to long hence."""
        times = (None, (0, 0), (1, 1_000_000_007), (0, -86_400 * 10**9 + 1), (5, 4_000_000_000 * 10**9))
        ns = times[change.where % len(times)]
        os.utime(self._file(change), **({"ns": ns} if ns else {}))

    def make_folder(self, change: Change) -> None:
        os.mkdir(self._target(change))

    def make_folders(self, change: Change) -> None:
        target = self._target(change)
        bottom = os.path.join(target, b"1", b"2", b"3")
        if not os.path.lexists(target) and len(bottom) < LONGEST_PATH:
            os.makedirs(bottom)
            self._write(os.path.join(bottom, b"n0"), change.content)

    def remove_folder(self, change: Change) -> None:
        with suppress(OSError):  # it is not empty
            os.rmdir(self._folder(change))

    def remove_tree(self, change: Change) -> None:
        if change.where % 3 == 0:
            shutil.rmtree(self._folder(change))

    def move_folder(self, change: Change) -> None:
        self._move(self._folder(change), self._target(change))

    def move_out(self, change: Change) -> None:
        if change.where % 2:
            self._move(self._folder(change), self._stray())

    def move_in(self, change: Change) -> None:
        """A tree that was made elsewhere, or was moved out before, appears at once and whole."""
        strays = sorted(name for name in os.listdir(self.outside) if os.path.isdir(os.path.join(self.outside, name)))
        if strays and change.which % 2:
            self._move(os.path.join(self.outside, strays[change.which % len(strays)]), self._target(change))
            return
        tree = self._stray()
        os.makedirs(os.path.join(tree, change.name))
        for place in (b"n0", os.path.join(change.name, b"n1")):
            self._write(os.path.join(tree, place), change.content)
        self._move(tree, self._target(change))

    def _stray(self) -> bytes:
        self._strays += 1
        return os.path.join(self.outside, b"%d" % self._strays)

    def _move(self, folder: bytes, target: bytes) -> None:
        """Into itself it cannot go; a rename onto anything but an empty folder is refused by the kernel."""
        deepest = max(len(os.path.join(at, b"x" * 255)) for at, _, _ in os.walk(folder)) - len(folder)
        if not target.startswith(folder) and len(target) + deepest < LONGEST_PATH:
            with suppress(OSError):
                os.rename(folder, target)

    def begin_writing(self, change: Change) -> None:
        """A writer that keeps the file open: until it is closed, what the file holds is nobody's business."""
        if len(self._writers) < 3:
            descriptor = os.open(self._file(change), os.O_RDWR | os.O_NOFOLLOW)
            self._writers.append((descriptor, os.fstat(descriptor).st_ino))
            os.pwrite(descriptor, change.content, change.where % 20)

    def go_on_writing(self, change: Change) -> None:
        if self._writers:
            descriptor, _ = self._writers[change.which % len(self._writers)]
            os.pwrite(descriptor, change.content, os.fstat(descriptor).st_size)

    def end_writing(self, change: Change) -> None:
        if self._writers:
            writer = self._writers[change.which % len(self._writers)]
            self._note(writer[0], closing=writer[0])
            self._writers.remove(writer)
            os.close(writer[0])

    def close(self) -> None:
        """Every writer is done."""
        while self._writers:
            self.end_writing(Change("end_writing", 0, 0, b"", b""))


OPERATIONS: dict[str, Callable[[AnyTree, Change], None]] = {
    operation.__name__: operation
    for operation in (
        *(AnyTree.create, AnyTree.append, AnyTree.overwrite, AnyTree.overwrite_unseen, AnyTree.overwrite_mapped),
        *(AnyTree.truncate, AnyTree.rename, AnyTree.replace, AnyTree.replace_by_older, AnyTree.delete),
        *(AnyTree.link, AnyTree.symlink, AnyTree.fifo, AnyTree.copy, AnyTree.chmod, AnyTree.utime),
        *(AnyTree.make_folder, AnyTree.make_folders, AnyTree.remove_folder, AnyTree.remove_tree),
        *(AnyTree.move_folder, AnyTree.move_out, AnyTree.move_in),
        *(AnyTree.begin_writing, AnyTree.go_on_writing, AnyTree.end_writing),
    )
}
CHANGES = st.builds(
    Change,
    kind=st.one_of(st.just("create"), st.sampled_from(sorted(OPERATIONS))),
    which=st.integers(0, 999),
    where=st.integers(0, 999),
    name=NAMES,
    content=CONTENTS,
)
