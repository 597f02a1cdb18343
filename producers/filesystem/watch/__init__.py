"""Events of the kernel, reduced to what they are good for: which paths and directories to look at again.

A thread only drains them, so that the kernel's queue overflows as rarely as can be; a bounded, coalescing set takes
what it read. An event never decides anything: a fresh stat does. So a lost event costs time (until the directory's
next listing), never a file: when events were lost, every directory is listed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.fanotify import FanotifyWatch
from headwater.producers.filesystem.watch.inotify import InotifyWatch

__all__ = ["Watch", "open_watch"]


class Watch(Protocol):
    """What happens below a root, noted in a ``DirtySet`` by a thread between ``start`` and ``close``.

    ``add`` and ``check`` never wait for events. ``overflows`` counts lost stretches of them; ``limit`` says in a
    sentence which directories it cannot watch and what to do about it, or is None.
    """

    overflows: int

    @property
    def unwatched(self) -> int:
        """Directories that were given to ``add`` and are not heard."""
        ...

    @property
    def limit(self) -> str | None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...

    def add(self, path: bytes) -> bool:
        """Call it before a directory is listed: what happens in it from now on is heard. False: it will not be, and
        only listings find what changes there; the next call tries again."""
        ...

    def check(self) -> None:
        """Raises what ended the thread, if anything did: without it the agent would be deaf and not know it."""
        ...


def open_watch(config: AgentConfig, tree: Tree, mounts: Mounts, dirty: DirtySet, wake: Callable[[], None]) -> Watch:
    """The kernel interface that the settings name. ``wake`` is called after something became dirty.

    Raises Refused where this kernel or this user does not get it, with the fix.
    """
    if config.watch == "fanotify":
        return FanotifyWatch(tree, mounts, dirty, wake)
    return InotifyWatch(tree, dirty, wake)
