"""Room for a new cast: the oldest that nobody uses or pins goes."""

from __future__ import annotations

import fcntl
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from headwater.consumers.peer.bytes import install
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.install import Target
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import NoSpace

_PARTIAL = re.compile(r"(?P<name>.+)\.(?P<epoch>\d+)\.partial", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class _Held:
    """A file of a cast that takes space, below ``directory``. By age: epochs grow."""

    epoch: int
    name: str
    file: str
    bytes: int
    directory: int
    partial: bool


def make_room(folder: CastFolder, config: PeerConfig, target: Target) -> list[str]:
    """Removes older casts until all files of casts, with the one that comes, stay within ``config.quota_bytes``.

    Returns their names. A file is in use while a peer receives or serves it, or anybody has it open. Raises NoSpace
    where the others together would not be enough: nothing was removed then.
    """
    if config.quota_bytes is None:
        return []
    with folder.locked():
        held = sorted(one for one in _all_held(folder) if (one.epoch, one.partial) != (target.epoch, True))
        excess = sum(one.bytes for one in held) + target.size - config.quota_bytes
        going: list[_Held] = []
        for one in held:
            if excess <= sum(gone.bytes for gone in going):
                break
            if one.epoch < target.epoch and one.name not in config.pinned and not _in_use(one):
                going.append(one)
        freed = sum(one.bytes for one in going)
        if excess > freed:
            raise _no_room(folder, config, target, free=config.quota_bytes - sum(one.bytes for one in held) + freed)
        for one in going:
            if one.partial:
                os.unlink(one.file, dir_fd=folder.kept)
            else:
                install.forget(folder, one.name)
    return [one.name for one in going]


def _all_held(folder: CastFolder) -> Iterator[_Held]:
    for file in os.listdir(folder.kept):
        if found := _PARTIAL.fullmatch(file):
            yield from _held(int(found["epoch"]), found["name"], file, folder.kept, partial=True)
    for name in install.marked(folder):
        present = install.find(folder, name)
        if present and present.present:
            yield from _held(present.epoch, name, present.file_name, folder.into, partial=False)


def _held(epoch: int, name: str, file: str, directory: int, *, partial: bool) -> Iterator[_Held]:
    with suppress(FileNotFoundError):
        allocated = os.stat(file, dir_fd=directory, follow_symlinks=False).st_blocks * 512
        yield _Held(epoch, name, file, allocated, directory, partial)


def _in_use(one: _Held) -> bool:
    """A peer holds a lock; whoever else has the file open, or mapped, keeps us from a lease on it."""
    file = os.open(one.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=one.directory)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who opens the file in this instant would end us by SIGIO; SIGURG is ignored by default.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _no_room(folder: CastFolder, config: PeerConfig, target: Target, free: int) -> NoSpace:
    return NoSpace(
        f"{target.size} bytes are needed and {free} are free within peer.quota_bytes = {config.quota_bytes}, "
        "without the casts that are in use, pinned or newer.",
        asked=f"The cast {target.name} was to be received below {folder.path}.",
        kept="No byte of it was fetched, and no other cast was removed.",
        advice="Raise the quota, or remove or unpin a cast.",
        needed=target.size,
        free=free,
    )
