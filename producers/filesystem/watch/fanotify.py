"""fanotify: one mark hears a whole filesystem. For root on huge trees: no watch a directory, no limit, no gap at mkdir.

An event names a directory by its handle, and a name in it. The directory is opened by the handle, the kernel says
where it is now, and a fresh stat must find the same directory there: so what lies outside the root, below a later
mount, or is gone, is dropped. A directory that moves is named with its old and its new place, and both are listed.
Needs Linux 5.9, CAP_SYS_ADMIN for the marks and CAP_DAC_READ_SEARCH for the handles.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from headwater.observe import logs
from headwater.producers.filesystem.mounts import Mount, Mounts
from headwater.producers.filesystem.tree import Tree, join
from headwater.producers.filesystem.watch import fanotify_calls as calls
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.drain import Drain
from headwater.producers.filesystem.watch.fanotify_calls import Event, Handle
from headwater.rules.errors import Refused
from headwater.rules.identity import display

log = logs.logger()

_COMES_OR_LEAVES = calls.CREATE | calls.MOVED_TO | calls.MOVED_FROM | calls.DELETE
_MOVES = calls.MOVED_TO | calls.MOVED_FROM
_MASK = _COMES_OR_LEAVES | calls.CLOSE_WRITE | calls.MODIFY | calls.ATTRIB | calls.ON_DIRECTORY
_FLAGS = calls.REPORT_DIRECTORY_AND_NAME | calls.UNLIMITED_QUEUE | calls.NON_BLOCKING | calls.CLOSE_ON_EXEC
_READ_BYTES = 256 * 1024
_PLACES = 10_000
"""Directories whose place is remembered; forgotten all together, and when any directory moves."""

_AS_ROOT = "Run the agent as root, outside of containers that take capabilities away"
_WHY = {
    errno.EPERM: ("this process lacks CAP_SYS_ADMIN", _AS_ROOT),
    errno.EINVAL: ("this kernel is older than Linux 5.9", "Use a newer kernel"),
    errno.ENOSYS: ("this kernel was built without fanotify", "Use a kernel with CONFIG_FANOTIFY"),
    errno.EMFILE: ("too many groups are open", "Raise fs.fanotify.max_user_groups (sysctl)"),
}


@dataclass(frozen=True, slots=True)
class _Marked:
    """A mount that was to be marked: its path below the root, how events name its filesystem, or why there are none."""

    path: bytes
    filesystem: bytes
    trouble: str | None


class FanotifyWatch:
    """A mark on each filesystem at and below the root; interface: ``Watch``."""

    def __init__(self, tree: Tree, mounts: Mounts, dirty: DirtySet, wake: Callable[[], None]) -> None:
        """Raises Refused where this kernel, this user or the root's filesystem does not give events."""
        self._tree = tree
        self._mounts = mounts
        self._dirty = dirty
        self._lock = Lock()
        self._marked: dict[Mount, _Marked] = {}
        self._places: dict[Handle, tuple[bytes, ...]] = {}
        self.overflows = 0
        try:
            self._group = calls.initialise(_FLAGS)
        except OSError as error:
            raise _refused(*_WHY.get(error.errno or 0, (f"{error.strerror}", "Look at fanotify_init(2)"))) from error
        try:
            self._require_root()
        except Refused:
            os.close(self._group)
            raise
        self._drain = Drain(self._group, self._read, wake)
        self.add(b"")

    def _require_root(self) -> None:
        try:
            with self._opened(b"") as root:
                calls.mark_filesystem(self._group, _MASK, root)
                handle = Handle(calls.filesystem_of(root), *calls.handle_of(self._tree.root))
                os.close(calls.open_directory(root, handle))
        except PermissionError as error:
            raise _refused("this process lacks CAP_SYS_ADMIN or CAP_DAC_READ_SEARCH", _AS_ROOT) from error
        except OSError as error:
            mount = self._mounts.holding(b"")
            kind = f" ({mount.kind})" if mount else ""
            raise _refused(f"the root's filesystem{kind} gives none: {error.strerror}", "Sync another root") from error

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[int]:
        """Only for a moment: an open descriptor would keep the filesystem from being unmounted."""
        descriptor = os.open(self._tree.absolute(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def start(self) -> None:
        self._drain.start()

    def close(self) -> None:
        self._drain.stop()
        os.close(self._group)

    def check(self) -> None:
        self._drain.check()

    @property
    def unwatched(self) -> int:
        """Filesystems, not directories: a mark is for all of one."""
        return sum(marked.trouble is not None for marked in self._marked.values())

    @property
    def limit(self) -> str | None:
        """The filesystems that gave no mark."""
        said = [
            f"{display(mount.point)} ({mount.kind}): fanotify cannot watch it: {marked.trouble}"
            for mount, marked in self._marked.items()
            if marked.trouble is not None
        ]
        return "; ".join(said) or None

    def add(self, path: bytes) -> bool:
        """The first directory of a filesystem has all of it marked."""
        mount = self._mounts.holding(path)
        if mount is None:
            return False
        if mount not in self._marked:
            with self._lock:
                self._marked = {
                    mount: self._marked.get(mount) or self._mark(point)
                    for point, mount in self._mounts.current().items()
                }
                self._places.clear()
        return mount in self._marked and self._marked[mount].trouble is None

    def _mark(self, path: bytes) -> _Marked:
        try:
            with self._opened(path) as descriptor:
                calls.mark_filesystem(self._group, _MASK, descriptor)
                return _Marked(path, calls.filesystem_of(descriptor), None)
        except OSError as error:
            log.warning("watch.unmarked", path=path, why=error.strerror, meaning="this filesystem is polled")
            return _Marked(path, b"", f"{error.strerror}")

    def _read(self) -> bool:
        with self._lock:
            noted = [self._note(event) for event in calls.events_in(os.read(self._group, _READ_BYTES))]
        return any(noted)

    def _note(self, event: Event) -> bool:
        """True: the event is about something below the root."""
        if event.directory is None:
            lost = bool(event.mask & calls.OVERFLOW)
            if lost:
                self.overflows += 1
                self._dirty.add_everything()
            return lost
        is_directory = bool(event.mask & calls.ON_DIRECTORY)
        if is_directory and event.mask & _MOVES:
            self._places.clear()
        places = self._places_of(event.directory)
        for place in places:
            if event.name == b".":
                self._dirty.add_directory(place)
            elif not is_directory:
                self._dirty.add_path(join(place, event.name))
            elif event.mask & _COMES_OR_LEAVES:
                self._dirty.add_tree(join(place, event.name))
        return bool(places)

    def _places_of(self, handle: Handle) -> tuple[bytes, ...]:
        """Where the directory is now: one path for each mount below the root that shows it."""
        places = self._places.get(handle)
        if places is None:
            points = [marked.path for marked in self._marked.values() if marked.filesystem == handle.filesystem]
            found = (self._place(point, handle) for point in points)
            places = tuple(dict.fromkeys(place for place in found if place is not None))
            if len(self._places) >= _PLACES:
                self._places.clear()
            self._places[handle] = places
        return places

    def _place(self, point: bytes, handle: Handle) -> bytes | None:
        try:
            with self._opened(point) as mount:
                directory = calls.open_directory(mount, handle)
            try:
                path = self._below_root(os.readlink(b"/proc/self/fd/%d" % directory))
                if path is None:
                    return None
                meant, there = os.fstat(directory), self._tree.stat(path).signature
                return path if (meant.st_dev, meant.st_ino) == (there.device, there.inode) else None
            finally:
                os.close(directory)
        except OSError:
            return None  # gone, or hidden below a mount

    def _below_root(self, absolute: bytes) -> bytes | None:
        if absolute == self._tree.root:
            return b""
        root = self._tree.root.rstrip(b"/") + b"/"
        return absolute[len(root) :] if absolute.startswith(root) else None


def _refused(why: str, fix: str) -> Refused:
    return Refused(
        f"fanotify gives this agent no events: {why}.",
        asked="To watch the root for changes:",
        kept="Nothing was changed.",
        advice=f'{fix}, or set watch = "inotify" for this source.',
    )
