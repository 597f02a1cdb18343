"""The continuous listing of every directory: what no event told is found here, and deletes are believed only here.

Each directory is known by itself: when it was last listed completely, and when it is due again. A start, lost events
and trees that came or went make directories due. A directory of any size is worked off in steps of bounded memory, so
that everything else goes on meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from zlib import crc32

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.filters import Filters
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.directories import KnownDirectory
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.notice import Notice
from headwater.producers.filesystem.reach import Reach
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.root import misplaced
from headwater.producers.filesystem.tree import GONE, Tree, entry_of, footprint_of, join, name_of

STEP_ENTRIES = 1_000
"""Entries looked at between two turns of the agent's loop: a few milliseconds."""


def next_listing_in(path: bytes, cycle_seconds: float) -> float:
    """Seconds until a directory's next listing: between three quarters of the cycle and all of it, by its name, so
    that the listings of one walk spread out over the next cycle."""
    return cycle_seconds * (0.75 + 0.25 * crc32(path) / 2**32)


class Walk:
    def __init__(
        self,
        config: AgentConfig,
        tree: Tree,
        filters: Filters,
        index: Index,
        mounts: Mounts,
        reach: Reach,
        notice: Notice,
        recorder: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._tree = tree
        self._filters = filters
        self._index = index
        self._mounts = mounts
        self._reach = reach
        self._notice = notice
        self._recorder = recorder
        self._clock = clock
        self._steps: Iterator[None] = iter(())

    def start_over(self) -> None:
        """Every directory is to be listed: at the start, and when events were lost."""
        now = self._clock()
        self._index.directories.make_all_due(now)
        self._index.directories.make_due(b"", now)

    def tree_changed(self, path: bytes) -> None:
        """A directory came or went as a whole: it is to be listed, and what is known below it."""
        if self._filters.takes_directory(path):
            self._index.directories.make_due(path, self._clock())
            self._index.directories.make_below_due(path, self._clock())

    def step(self) -> bool:
        """List some more entries, inside a transaction of the index. False: no directory is due."""
        for _ in self._steps:
            return True
        directory = self._index.directories.next_due(self._clock())
        if directory is None:
            return False
        self._steps = self._list(directory)
        next(self._steps, None)
        return True

    def _list(self, directory: KnownDirectory) -> Iterator[None]:
        """List one directory; yields between steps. Only its last line makes the listing count as complete."""
        path, began_at = directory.path, self._clock()
        # An event during the listing makes the directory due once more.
        self._index.directories.begin(path, began_at + next_listing_in(path, self._config.reconcile_seconds))
        mount = self._mounts.is_mount(path)
        if wrong := misplaced(self._mounts, self._index, path):
            self._name(*wrong)
            return
        try:
            # First the watch, then the listing: what happens in between is heard, what happened before is listed.
            if not self._reach.add(path):
                self._index.directories.begin(path, began_at + next_listing_in(path, self._config.poll_seconds))
            listing, matched = self._tree.listing(path), 0
            while step := list(islice(listing, STEP_ENTRIES)):
                matched += self._consider(path, step)
                yield
            if matched < self._index.files.count_in(path):
                yield from self._find_missing(path, began_at)
        except GONE:
            self._vanished(path)
            return
        except OSError as error:
            self._recorder.except_path(path, f"unreadable: {error.strerror}")
            return
        self._recorder.clear_path(path)
        self._index.exceptions.make_due_in(path, self._clock())
        self._index.directories.listed(path, at=began_at, is_mount=mount)

    def _name(self, directory: bytes, reason: str) -> None:
        """Something else lies at a directory than what was listed there: versions name it, not all that is below."""
        self._recorder.except_path(directory, reason, retry_seconds=self._config.reconcile_seconds)

    def _consider(self, directory: bytes, step: list[tuple[bytes, os.stat_result]]) -> int:
        """Decide about entries of a directory; returns how many of them the index knew.

        Nearly all are as they were: those cost a stat, their share of one query, and a comparison.
        """
        known = self._index.files.footprints(directory, [name for name, _ in step])
        moved = [
            entry_of(join(directory, name), found)
            for name, found in step
            if known.get(name) != footprint_of(found) or self._is_awaited(join(directory, name))
        ]
        files = self._index.files.named(directory, [name_of(entry.path) for entry in moved])
        for entry in moved:
            if not (entry.is_directory and self._index.directories.get(entry.path)):
                self._notice.consider(entry, files.get(entry.path))
        return len(known)

    def _is_awaited(self, path: bytes) -> bool:
        """Is the path to be looked at although nothing about it moved?"""
        return self._index.exceptions.reason(path) is not None or self._index.requests.asked(path)

    def _find_missing(self, directory: bytes, began_at: float) -> Iterator[None]:
        """Some known files were not listed: a fresh look at each known one tells which are gone."""
        after = b""
        while page := self._index.files.page_in(directory, after, STEP_ENTRIES):
            for known in page:
                try:
                    self._tree.stat(known.path)
                except FileNotFoundError:
                    self._index.files.mark_missing(known.path, began_at)
            after = name_of(page[-1].path)
            yield

    def _vanished(self, path: bytes) -> None:
        """The directory is not there: everything in it is missing, unless a mount went away with it."""
        if not path:
            return  # the agent halts
        if wrong := misplaced(self._mounts, self._index, path):
            self._name(*wrong)
            return
        self._index.files.mark_all_missing(path, self._clock())
        self._index.directories.make_below_due(path, self._clock())
        self._index.directories.remove(path)
        self._index.exceptions.make_due_below(path, self._clock())
        self._recorder.clear_path(path)
