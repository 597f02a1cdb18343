"""Is what lies at the root still the source? Where it is not, the agent halts: an absent disk deletes nothing."""

from __future__ import annotations

from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.tree import Tree, parent_of

_UNMOUNTED = "unmounted: the filesystem that was mounted here is gone; its files are kept as they were"
_COVERED = (
    "mounted over: a filesystem is mounted on a folder whose files are known; they are kept as they were, and what is "
    "mounted is not carried"
)
_REPLACED = "replaced: another filesystem is mounted here; if that is meant, restart the agent"


def misplaced(mounts: Mounts, index: Index, directory: bytes) -> tuple[bytes, str] | None:
    """The directory, or the nearest one above it, that is not the filesystem that was listed there, and the reason.

    What was mounted, unmounted or mounted over hides files: none of them is gone, and nothing below is believed.
    """
    while directory:
        known = index.directories.get(directory)
        if known is not None and known.listed_at:
            mounted = mounts.is_mount(directory)
            if known.is_mount and not mounted:
                return directory, _UNMOUNTED
            if mounted and not known.is_mount and index.files.any_below(directory):
                return directory, _COVERED
            if mounts.is_replaced(directory):
                return directory, _REPLACED
        directory = parent_of(directory)
    return None


class Root:
    """Watches over the root within one life of the agent (device numbers may change when a host starts again)."""

    def __init__(self, source: str, tree: Tree, mounts: Mounts, index: Index) -> None:
        self._source = source
        self._tree = tree
        self._mounts = mounts
        self._index = index
        self._device: int | None = None

    def trouble(self) -> str | None:
        """Why nothing under the root may be believed now; None where all is well."""
        try:
            device = self._tree.stat(b"").signature.device
            empty = self._tree.is_empty()
        except OSError as error:
            return f"the root is missing or unreadable: {error.strerror}"
        known = self._index.directories.get(b"")
        if known is not None and known.is_mount and not self._mounts.is_mount(b""):
            return "nothing is mounted at the root any more"
        if self._device is not None and device != self._device:
            return "another filesystem is mounted at the root; if that is meant, restart the agent"
        if empty and self._index.files.count > self._index.deletes.consented:
            return (
                f"the root is empty, but {self._index.files.count:,} files are known: nothing is deleted until "
                f"`headwater consent {self._source}`"
            )
        self._device = device
        return None

    def is_emptied(self) -> bool:
        """Is the root there and empty, although files are known?"""
        try:
            return self._tree.is_empty() and self._index.files.count > 0
        except OSError:
            return False
