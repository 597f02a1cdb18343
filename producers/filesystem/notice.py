"""From a fresh stat to what is to be done about a path: nothing, read it, name it, list it, or hold it as missing."""

from __future__ import annotations

from collections.abc import Callable

from headwater.producers.filesystem.complete import IN_PROGRESS, Completeness
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.filters import Filters
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.settle import Candidate, Settling, observe, readable_at
from headwater.producers.filesystem.tree import GONE, Entry, Tree, parent_of


class Notice:
    """Looks at paths, in the agent's thread, inside a transaction of the index."""

    def __init__(
        self,
        config: AgentConfig,
        tree: Tree,
        filters: Filters,
        index: Index,
        settling: Settling,
        recorder: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._tree = tree
        self._filters = filters
        self._completeness = Completeness(config, tree)
        self._index = index
        self._settling = settling
        self._recorder = recorder
        self._clock = clock

    def look(self, path: bytes) -> None:
        """Take a fresh look at a path that may have changed."""
        try:
            entry = self._tree.stat(path)
        except GONE:
            self._gone(path)
            return
        except OSError as error:
            self._recorder.except_path(path, f"unreadable: {error.strerror}")
            return
        self.consider(entry, self._index.files.get(path))
        marked = self._completeness.marked_by(path)
        if marked is not None and self._index.exceptions.count:
            self._look_at_marked(marked)

    def _look_at_marked(self, marked: bytes) -> None:
        """A marker was made or touched: what waited for it need not wait for its next turn."""
        if self._index.directories.get(marked) is not None:
            self._index.directories.make_due(marked, self._clock())
        elif self._index.exceptions.reason(marked) is not None:
            self.look(marked)

    def consider(self, entry: Entry, known: KnownFile | None) -> None:
        """Decide about an entry that was just seen; ``known`` is what the index says about its path."""
        path, now = entry.path, self._clock()
        if entry.is_directory:
            if self._filters.takes_directory(path):
                self._index.directories.make_due(path, now)
                if known is not None:
                    self._miss(known, now)
            return
        if not self._filters.takes_file(path):
            return
        if entry.special is not None:
            self._recorder.except_path(path, entry.special, retry_seconds=self._config.reconcile_seconds)
            if known is not None:
                self._miss(known, now)
            return
        forced = self._index.requests.asked(path)
        if known is not None and known.missing_since is not None:
            self._index.files.found_again(path)
        if known is not None and is_as_sent(known, entry) and not forced:
            self._recorder.found_as_sent(path)
            return
        if self._completeness.is_in_progress(path):
            self._recorder.except_path(path, IN_PROGRESS, retry_seconds=self._config.reconcile_seconds)
            return
        observation = observe(None, entry.signature, now)
        candidate = Candidate(path, now, observation, forced)
        self._settling.add(candidate, readable_at(observation, self._config.settle_seconds))
        if known is not None and known.signature.inode != entry.signature.inode:
            self._look_at_other_names(known)

    def _gone(self, path: bytes) -> None:
        """Hold what was known at the path as missing. Its directory is listed before that is believed; one listing
        answers for every path that goes in the meantime."""
        now = self._clock()
        self._index.requests.answered(path)
        if (known := self._index.files.get(path)) is not None:
            self._miss(known, now)
            self._index.directories.make_due(parent_of(path), now + self._config.delete_hold_seconds / 2)
        if self._index.directories.get(path) is not None:
            self._index.directories.make_due(path, now)
        else:
            self._recorder.clear_path(path)

    def _miss(self, known: KnownFile, now: float) -> None:
        self._index.files.mark_missing(known.path, now)
        if known.missing_since is None:
            self._look_at_other_names(known)

    def _look_at_other_names(self, known: KnownFile) -> None:
        """The path names another file now, or none. What was written through it before made no event for the other
        names of that file; while it still had the path, reading it found them."""
        for other in self._index.files.with_inode(known.signature):
            if other.path != known.path and other.missing_since is None and other.path not in self._settling:
                self.look(other.path)


def is_as_sent(known: KnownFile, entry: Entry) -> bool:
    """Is the path as it was when it was last sent?"""
    return known.footprint == entry.footprint
