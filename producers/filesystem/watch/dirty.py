"""What events named, bounded and without duplicates, until somebody takes a look."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from headwater.producers.filesystem.tree import parent_of


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
