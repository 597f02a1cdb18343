"""Events of the kernel, reduced to what they are good for: which paths and directories to look at again.

A thread only drains inotify, so that its queue overflows as rarely as can be; a bounded, coalescing set takes what it
read. An event never decides anything: a fresh stat does. So a lost event costs time (until the directory's next
listing), never a file: when events were lost, every directory is listed again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Thread

from inotify_simple import INotify, flags

from headwater.observe import logs
from headwater.producers.filesystem.tree import Tree, join, parent_of
from headwater.rules.errors import Refused

log = logs.logger()

_CHANGES = flags.CREATE | flags.CLOSE_WRITE | flags.MODIFY | flags.ATTRIB | flags.MOVED_FROM | flags.MOVED_TO
_MASK = _CHANGES | flags.DELETE | flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK
_COMES = flags.CREATE | flags.MOVED_TO
_LEAVES = flags.MOVED_FROM | flags.DELETE
_WAIT_MILLISECONDS = 200
"""How long the drain thread takes to notice that it shall stop."""


@dataclass(frozen=True, slots=True)
class Dirty:
    """What to look at again. ``trees`` came or went as a whole, with every directory below them; ``everything``:
    events were lost, so every directory."""

    paths: tuple[bytes, ...]
    directories: tuple[bytes, ...]
    trees: tuple[bytes, ...]
    everything: bool


class DirtySet:
    """Coalesces what events name. Above ``limit`` paths their directories stand for them; above ``limit``
    directories everything does. Safe for threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._paths: dict[bytes, None] = {}
        self._directories: dict[bytes, None] = {}
        self._trees: dict[bytes, None] = {}
        self._everything = False

    def add_path(self, path: bytes) -> None:
        with self._lock:
            if parent_of(path) in self._directories:
                return
            self._paths[path] = None
            if len(self._paths) > self._limit:
                self._directories.update((parent_of(path), None) for path in self._paths)
                self._paths.clear()
            self._bound()

    def add_directory(self, path: bytes) -> None:
        with self._lock:
            self._directories[path] = None
            self._bound()

    def add_tree(self, path: bytes) -> None:
        with self._lock:
            self._trees[path] = None
            self._bound()

    def add_everything(self) -> None:
        with self._lock:
            self._everything = True

    def _bound(self) -> None:
        if len(self._directories) + len(self._trees) > self._limit:
            self._directories.clear()
            self._trees.clear()
            self._everything = True

    def take(self, limit: int) -> Dirty:
        """At most ``limit`` paths, and every directory, in order of arrival; they are no longer in the set."""
        with self._lock:
            if len(self._paths) <= limit:
                paths, self._paths = tuple(self._paths), {}
            else:
                paths = tuple(path for path, _ in zip(self._paths, range(limit), strict=False))
                for path in paths:
                    del self._paths[path]
            dirty = Dirty(paths, tuple(self._directories), tuple(self._trees), self._everything)
            self._directories, self._trees, self._everything = {}, {}, False
            return dirty

    def __len__(self) -> int:
        with self._lock:
            return len(self._paths) + len(self._directories) + len(self._trees) + self._everything


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


class Watch:
    """A watch on every directory that was given to ``add``. ``wake`` is called after something became dirty.

    ``overflows`` counts lost stretches of events; ``unwatched`` directories hit the kernel's limit of watches and are
    only found by listing.
    """

    def __init__(self, tree: Tree, dirty: DirtySet, wake: Callable[[], None]) -> None:
        self._tree = tree
        self._dirty = dirty
        self._wake = wake
        self._inotify = _inotify()
        self._lock = Lock()
        self._path_of: dict[int, bytes] = {}
        self._watch_of: dict[bytes, int] = {}
        self._stopping = False
        self._failure: BaseException | None = None
        self.overflows = 0
        self.unwatched = 0
        self._thread = Thread(target=self._drain, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        if self._thread.ident is not None:
            self._thread.join()
        self._inotify.close()

    def add(self, path: bytes) -> None:
        """Watch this directory from now on: what happens in it after this call is heard. Call it before listing.

        A directory that moved keeps its kernel watch; adding it under its new path re-labels it.
        """
        with self._lock:
            try:
                watch = self._inotify.add_watch(self._tree.absolute(path), _MASK)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    return  # it is gone: its listing will say so
                self._say_limit(path)
                return
            self._forget(self._path_of.get(watch))
            self._path_of[watch] = path
            self._watch_of[path] = watch

    def _say_limit(self, path: bytes) -> None:
        self.unwatched += 1
        if self.unwatched == 1:
            log.warning(
                "watch.limit",
                path=path,
                meaning="the kernel's limit of inotify watches is reached; directories beyond it are only listed",
                advice="raise fs.inotify.max_user_watches (sysctl), then restart the agent",
            )

    def _drain(self) -> None:
        try:
            while not self._stopping:
                events = self._inotify.read(timeout=_WAIT_MILLISECONDS)
                with self._lock:
                    for event in events:
                        self._note(event.wd, event.mask, os.fsencode(event.name))
                if events:
                    self._wake()
        except BaseException as error:
            self._failure = error
            self._wake()

    def check(self) -> None:
        """Raises what ended the drain thread, if anything did: without it the agent would be deaf and not know it."""
        if self._failure is not None:
            raise self._failure

    def _note(self, watch: int, mask: int, name: bytes) -> None:
        if mask & flags.Q_OVERFLOW:
            self.overflows += 1
            self._dirty.add_everything()
            return
        directory = self._path_of.get(watch)
        if directory is None:
            return  # it moved away; where it went, it is listed as a new directory
        if mask & flags.IGNORED:
            self._forget(directory)
        elif not name:
            self._dirty.add_directory(directory)
        elif mask & flags.ISDIR:
            path = join(directory, name)
            if mask & _LEAVES:
                self._forget_below(path)
            if mask & (_COMES | _LEAVES):
                self._dirty.add_tree(path)
        else:
            self._dirty.add_path(join(directory, name))

    def _forget(self, path: bytes | None) -> None:
        if path is not None and (watch := self._watch_of.pop(path, None)) is not None:
            self._path_of.pop(watch, None)

    def _forget_below(self, path: bytes) -> None:
        below = path + b"/"
        for known in [known for known in self._watch_of if known == path or known.startswith(below)]:
            self._forget(known)
