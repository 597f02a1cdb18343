"""inotify: a watch on each directory, for any user. Bounded by the kernel's limit of watches."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Lock

from inotify_simple import INotify, flags

from headwater.observe import logs
from headwater.producers.filesystem.tree import Tree, join
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.drain import Drain
from headwater.rules.errors import Refused
from headwater.rules.identity import display

log = logs.logger()

_CHANGES = flags.CREATE | flags.CLOSE_WRITE | flags.MODIFY | flags.ATTRIB | flags.MOVED_FROM | flags.MOVED_TO
_MASK = _CHANGES | flags.DELETE | flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK
_COMES = flags.CREATE | flags.MOVED_TO
_LEAVES = flags.MOVED_FROM | flags.DELETE


def _inotify() -> INotify:
    """Raises Refused where this user has too many of them open already."""
    try:
        return INotify()
    except OSError as error:
        raise Refused(
            f"the kernel gave no inotify instance: {error.strerror}.",
            asked="To watch the root for changes:",
            kept="Nothing was changed.",
            advice="Raise fs.inotify.max_user_instances (sysctl), or stop other programs that watch files.",
        ) from error


class InotifyWatch:
    """A kernel watch on every directory that was given to ``add``; interface: ``Watch``."""

    def __init__(self, tree: Tree, dirty: DirtySet, wake: Callable[[], None]) -> None:
        self._tree = tree
        self._dirty = dirty
        self._inotify = _inotify()
        self._drain = Drain(self._inotify.fileno(), self._read, wake)
        self._lock = Lock()
        self._paths_of: dict[int, tuple[bytes, ...]] = {}
        self._watch_of: dict[bytes, int] = {}
        self._unwatched: dict[bytes, None] = {}
        self.overflows = 0

    def start(self) -> None:
        self._drain.start()

    def close(self) -> None:
        self._drain.stop()
        self._inotify.close()

    def check(self) -> None:
        self._drain.check()

    @property
    def unwatched(self) -> int:
        return len(self._unwatched)

    @property
    def limit(self) -> str | None:
        """The kernel's limit of watches, where it left directories out."""
        with self._lock:
            first, count = next(iter(self._unwatched), None), len(self._unwatched)
        if first is None:
            return None
        name, others = display(self._tree.absolute(first)), f" and {count - 1:,} more" if count > 1 else ""
        return (
            f"{name}{others}: beyond the kernel's limit of inotify watches; raise fs.inotify.max_user_watches "
            "(sysctl), and they are watched from their next listing on"
        )

    def add(self, path: bytes) -> bool:
        """A directory that moved keeps its kernel watch; adding it under its new path re-labels it."""
        with self._lock:
            try:
                watch = self._inotify.add_watch(self._tree.absolute(path), _MASK)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    self._say_limit(path)
                    return False
                if error.errno == errno.ENAMETOOLONG:
                    return False  # deeper than a system call can name
                self._unwatched.pop(path, None)
                return True  # it is gone: its listing will say so
            self._unwatched.pop(path, None)
            if self._watch_of.get(path) != watch:
                self._forget(path)
                self._watch_of[path] = watch
                # One directory that is mounted at two places has one kernel watch and two paths.
                self._paths_of[watch] = (*self._paths_of.get(watch, ()), path)
            return True

    def _say_limit(self, path: bytes) -> None:
        self._unwatched[path] = None
        if len(self._unwatched) == 1:
            log.warning(
                "watch.limit",
                path=path,
                meaning="the kernel's limit of inotify watches is reached; directories beyond it are polled",
                advice="raise fs.inotify.max_user_watches (sysctl)",
            )

    def _read(self) -> bool:
        events = self._inotify.read(timeout=0)
        with self._lock:
            for event in events:
                self._note(event.wd, event.mask, os.fsencode(event.name))
        return bool(events)

    def _note(self, watch: int, mask: int, name: bytes) -> None:
        if mask & flags.Q_OVERFLOW:
            self.overflows += 1
            self._dirty.add_everything()
        elif mask & flags.IGNORED:
            for directory in self._paths_of.pop(watch, ()):
                self._watch_of.pop(directory, None)
        else:
            # Nowhere: it moved away; where it went, it is listed as a new directory.
            for directory in self._paths_of.get(watch, ()):
                self._note_in(directory, mask, name)

    def _note_in(self, directory: bytes, mask: int, name: bytes) -> None:
        if not name:
            self._dirty.add_directory(directory)
        elif mask & flags.ISDIR:
            path = join(directory, name)
            if mask & _LEAVES:
                self._forget_below(path)
            if mask & (_COMES | _LEAVES):
                self._dirty.add_tree(path)
        else:
            self._dirty.add_path(join(directory, name))

    def _forget(self, path: bytes) -> None:
        watch = self._watch_of.pop(path, None)
        if watch is None:
            return
        if others := tuple(other for other in self._paths_of[watch] if other != path):
            self._paths_of[watch] = others
        else:
            del self._paths_of[watch]

    def _forget_below(self, path: bytes) -> None:
        below = path + b"/"
        gone = [known for known in self._watch_of if known == path or known.startswith(below)]
        for known in gone:
            self._forget(known)
        for known in [known for known in self._unwatched if known == path or known.startswith(below)]:
            del self._unwatched[known]
