"""How far the kernel's events reach: which directories they tell about, and which are polled instead."""

from __future__ import annotations

from headwater.observe import logs
from headwater.producers.filesystem.mounts import Mount, Mounts
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch import Watch
from headwater.rules.identity import display

log = logs.logger()


class Reach:
    """Called from the agent's thread only."""

    def __init__(self, tree: Tree, mounts: Mounts, watch: Watch) -> None:
        self._tree = tree
        self._mounts = mounts
        self._watch = watch
        self._silent: dict[Mount, None] = {}

    def add(self, path: bytes) -> bool:
        """Listen to a directory before it is listed. False: what changes there is only found by listing it again.

        Where others change files unseen, events still come for what this host changes, so it is listened to as well.
        Raises OSError where the directory cannot be looked at.
        """
        heard = self._watch.add(path)
        if self._tree.is_local(path):
            return heard
        mount = self._mounts.holding(path)
        if mount is not None and mount not in self._silent:
            self._silent[mount] = None
            log.warning("watch.polled", path=mount.point, filesystem=mount.kind, meaning=meaning(mount))
        return False

    def polled(self) -> tuple[str, ...]:
        """Where files are found by polling, and why: a sentence each."""
        there = set(self._mounts.current().values())
        self._silent = {mount: None for mount in self._silent if mount in there}
        said = [f"{display(mount.point)}: {meaning(mount)}" for mount in self._silent]
        return (*said, self._watch.limit) if self._watch.limit else tuple(said)


def silent_mounts(tree: Tree, mounts: Mounts) -> list[Mount]:
    """Those at and below the root where events do not tell everything, before anything is listed. One that cannot be
    looked at is one of them."""
    silent = []
    for path, mount in mounts.current().items():
        try:
            if tree.is_local(path):
                continue
        except OSError:
            pass
        silent.append(mount)
    return silent


def meaning(mount: Mount) -> str:
    """What follows for the files of a mount that is not local."""
    return f"{mount.kind} tells nothing of what others change, and proves no file quiet: polled, guarantee weak"
