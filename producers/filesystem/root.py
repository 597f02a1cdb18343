"""Is what lies at the root still the source? Where it is not, the agent halts: an absent disk deletes nothing."""

from __future__ import annotations

import os

from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.tree import Tree, parent_of


def is_mount(tree: Tree, path: bytes) -> bool:
    """Does another filesystem begin at this directory? Raises OSError where it cannot be looked at."""
    above = os.stat(os.path.join(tree.root, b"..")).st_dev if not path else tree.stat(parent_of(path)).signature.device
    return tree.stat(path).signature.device != above


def lost_mount(tree: Tree, index: Index, directory: bytes) -> bool:
    """Was this directory, or one above it, a mount that is not there now? Then nothing below it counts as gone."""
    while directory:
        known = index.directories.get(directory)
        if known is not None and known.is_mount:
            try:
                if not is_mount(tree, directory):
                    return True
            except OSError:
                return True
        directory = parent_of(directory)
    return False


class Root:
    """Watches over the root within one life of the agent (device numbers may change when a host starts again)."""

    def __init__(self, tree: Tree, index: Index) -> None:
        self._tree = tree
        self._index = index
        self._device: int | None = None

    def trouble(self) -> str | None:
        """Why nothing under the root may be believed now; None where all is well."""
        try:
            device = self._tree.stat(b"").signature.device
            empty = self._tree.is_empty()
            mounted = is_mount(self._tree, b"")
        except OSError as error:
            return f"the root is missing or unreadable: {error.strerror}"
        known = self._index.directories.get(b"")
        if known is not None and known.is_mount and not mounted:
            return "nothing is mounted at the root any more"
        if self._device is not None and device != self._device:
            return "another filesystem is mounted at the root; if that is meant, restart the agent"
        if empty and self._index.files.count:
            return f"the root is empty, but {self._index.files.count} files are known"
        self._device = device
        return None
