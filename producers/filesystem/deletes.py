"""Deletes: held for a while, and believed only on good evidence."""

from __future__ import annotations

from collections.abc import Callable

from headwater.producers.filesystem.consent import Consent
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.notice import Notice
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.root import misplaced
from headwater.producers.filesystem.tree import GONE, Tree, parent_of


class Deletes:
    """A path is deleted when it was missing for the hold time, is missing now, and its directory was listed
    completely and without an error since it went missing (or is itself gone, and was believed to be).

    The hold lets a rename be seen as one: whoever finds the same inode and bytes at another path takes the missing
    row with it. The agent calls ``release`` only while the root is sound; more than a day may have waits for a person's
    consent.
    """

    def __init__(
        self,
        tree: Tree,
        mounts: Mounts,
        index: Index,
        notice: Notice,
        recorder: Recorder,
        consent: Consent,
        clock: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._mounts = mounts
        self._index = index
        self._notice = notice
        self._recorder = recorder
        self._consent = consent
        self._clock = clock

    def release(self, limit: int, *, hold_seconds: float) -> int:
        """Send the tombstones that are due, inside a transaction; returns how many paths were looked at."""
        before, deleted = self._clock() - hold_seconds, 0
        held = self._index.files.missing(before, limit)
        if not held:
            self._consent.nothing_is_due()
        if not held or not self._consent.allows(before):
            return 0
        for known in held:
            if not self._is_gone(known.path):
                self._index.files.found_again(known.path)
                self._notice.look(known.path)
            elif misplaced(self._mounts, self._index, parent_of(known.path)):
                self._index.files.found_again(known.path)  # hidden, not gone
            elif self._is_believed(known):
                self._recorder.delete(known)
                deleted += 1
            else:
                self._hold_again(known)
        if deleted:
            self._index.deletes.add(deleted, self._clock())
        return len(held)

    def _is_gone(self, path: bytes) -> bool:
        """Is there nothing that a file row could stand for? What cannot be looked at is not gone."""
        try:
            entry = self._tree.stat(path)
        except GONE:
            return True
        except OSError:
            return False
        return entry.is_directory or entry.special is not None

    def _is_believed(self, known: KnownFile) -> bool:
        directory = self._index.directories.get(parent_of(known.path))
        return directory is None or (known.missing_since is not None and directory.listed_at >= known.missing_since)

    def _hold_again(self, known: KnownFile) -> None:
        now = self._clock()
        self._index.files.found_again(known.path)
        self._index.files.mark_missing(known.path, now)
        self._index.directories.make_due(parent_of(known.path), now)
