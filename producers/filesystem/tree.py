"""The source's directory tree, reached from its root without ever following a symbolic link.

Paths are bytes relative to the root, without a leading or trailing slash; the root itself is ``b""``. Every component
is opened from its parent's descriptor, so that a directory that is swapped for a link while we work leads nowhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.producers.filesystem.mounts import is_local
from headwater.schemas.records import FileType

GONE = (FileNotFoundError, NotADirectoryError)
"""What an operation raises when the path, or a directory above it, is not there any more."""

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Signature:
    """What a stat says about content: as long as none of it moves, the content is the one that was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is kept of a file besides its content."""

    mtime_ns: int
    mode: int
    uid: int
    gid: int


Footprint = tuple[str, int, int, int, int, int, int, int]
"""File type, size, mtime, ctime, inode, mode, owner and group: while all stand, a path is as it was. The device is not
part of it: its number may change when a host starts again. A plain tuple, because a walk compares millions of them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path as a stat found it. ``special`` names what can not be carried (fifo, socket, device)."""

    path: bytes
    file_type: FileType
    is_directory: bool
    special: str | None
    signature: Signature
    attributes: Attributes

    @property
    def footprint(self) -> Footprint:
        return footprint(self.file_type, self.signature, self.attributes)


def parent_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def name_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def signature_of(found: os.stat_result) -> Signature:
    return Signature(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


def attributes_of(found: os.stat_result) -> Attributes:
    return Attributes(found.st_mtime_ns, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def footprint(file_type: FileType, signature: Signature, kept: Attributes) -> Footprint:
    stamps = signature.mtime_ns, signature.ctime_ns
    return file_type.value, signature.size, *stamps, signature.inode, kept.mode, kept.uid, kept.gid


def footprint_of(found: os.stat_result) -> Footprint:
    """The footprint of ``entry_of`` the same stat, made without the objects."""
    mode = found.st_mode
    return (
        _TYPES.get(stat.S_IFMT(mode), FileType.other).value,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_ino,
        stat.S_IMODE(mode),
        found.st_uid,
        found.st_gid,
    )


_TYPES = {stat.S_IFREG: FileType.regular, stat.S_IFLNK: FileType.symlink}
_SPECIAL = {
    stat.S_IFIFO: "a fifo has no content to carry",
    stat.S_IFSOCK: "a socket has no content to carry",
    stat.S_IFBLK: "a block device is not carried",
    stat.S_IFCHR: "a character device is not carried",
}


def entry_of(path: bytes, found: os.stat_result) -> Entry:
    kind = stat.S_IFMT(found.st_mode)
    return Entry(
        path=path,
        file_type=_TYPES.get(kind, FileType.other),
        is_directory=kind == stat.S_IFDIR,
        special=_SPECIAL.get(kind),
        signature=signature_of(found),
        attributes=attributes_of(found),
    )


class Tree:
    """Stat, open and list below one root. Safe for threads; holds no descriptor, so the root can be unmounted."""

    def __init__(self, root: Path) -> None:
        self.root = os.fsencode(root)

    def absolute(self, path: bytes) -> bytes:
        """For calls that take no descriptor (inotify) and for people."""
        return join(self.root, path) if path else self.root

    @contextmanager
    def _directory(self, path: bytes) -> Iterator[int]:
        """A descriptor of the directory. Raises one of GONE where a component is missing or is no directory."""
        descriptor = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in path.split(b"/") if path else ():
                below = os.open(name, _STEP, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def stat(self, path: bytes) -> Entry:
        """A fresh look at one path. Raises one of GONE, or another OSError."""
        with self._directory(parent_of(path)) as directory:
            return entry_of(path, os.stat(name_of(path) or b".", dir_fd=directory, follow_symlinks=False))

    def is_gone(self, path: bytes) -> bool:
        """Is there nothing at the path? What cannot be looked at is not gone."""
        try:
            with self._directory(parent_of(path)) as directory:
                os.stat(name_of(path) or b".", dir_fd=directory, follow_symlinks=False)
        except GONE:
            return True
        except OSError:
            return False
        return False

    def open_file(self, path: bytes) -> int:
        """A descriptor for reading the file; never blocks on a fifo, never follows a link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._directory(parent_of(path)) as directory:
            return os.open(name_of(path), flags, dir_fd=directory)

    def link_target(self, path: bytes) -> bytes:
        with self._directory(parent_of(path)) as directory:
            return os.readlink(name_of(path), dir_fd=directory)

    def entries(self, path: bytes) -> Iterator[Entry]:
        """Every entry of one directory, as ``listing`` finds it."""
        return (entry_of(join(path, name), found) for name, found in self.listing(path))

    def listing(self, path: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        """Name and fresh stat of every entry of one directory, in the directory's own order.

        The listing is complete once the iterator ends without an error. An entry that vanished meanwhile is left out.
        """
        with self._directory(path) as directory:
            descriptor = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            with os.scandir(descriptor) as found:
                for item in found:
                    try:
                        yield os.fsencode(item.name), item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
        finally:
            os.close(descriptor)

    def is_local(self, path: bytes) -> bool:
        """Does the directory lie where events and leases tell the truth? Raises one of GONE, or another OSError."""
        with self._directory(path) as directory:
            return is_local(directory)

    def is_empty(self) -> bool:
        with os.scandir(self.root) as found:
            return next(found, None) is None
