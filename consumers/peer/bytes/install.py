"""How a received file gets its name, and which epoch of each cast is installed below a target folder."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.rules.errors import Fenced, Refused

_MARK = ".installed.json"


@dataclass(frozen=True, slots=True)
class Target:
    """What a partial file will be."""

    name: str
    epoch: int
    file_name: str
    size: int

    @property
    def partial(self) -> str:
        return f"{self.name}.{self.epoch}.partial"


@dataclass(frozen=True, slots=True)
class Installed:
    """``present``: the file is still the one that was installed; else somebody changed, replaced or removed it."""

    name: str
    epoch: int
    file_name: str
    root: bytes
    size: int
    present: bool


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is durable about an installation: before the rename as an intent, after it as a fact."""

    epoch: int
    file_name: str
    root: str
    size: int
    inode: int
    """Of the file, which a rename keeps: tells after a crash whether it happened."""
    done: bool


def install(folder: CastFolder, target: Target, file: int, root: bytes) -> None:
    """Gives the verified partial ``file`` its name, for good:

     1. sync: the file's bytes are on the disk;
     2. intend: the cast's mark says which epoch is coming, and as which inode;
     3. rename: the name leads to the new file, or still to the old one, never to none;
     4. sync_folders: the rename is on the disk;
     5. mark: the cast's mark says that it is installed.

    A crash after 1 changes nothing that anybody sees. After 2, or after 3 where the disk lost the rename, the partial
    file is still there: the next run proves its chunks again and comes back here; older epochs are refused already.
    After 3 or 4, ``installed`` sees the inode under its name and does the rest. So no epoch replaces a newer one,
    whenever a process dies.

    Raises Fenced where a newer epoch of the cast, or a newer cast of the same file name, is installed or intended;
    Refused where the name cannot be given.
    """
    sync(file)
    with folder.locked():
        _refuse_older(folder, target)
        intent = _Mark(target.epoch, target.file_name, root.hex(), target.size, os.fstat(file).st_ino, done=False)
        intend(folder, target.name, intent)
        rename(folder, target)
        sync_folders(folder)
        mark(folder, target.name, intent)


def installed(folder: CastFolder, name: str) -> Installed | None:
    """What is installed of a cast; completes what a crash interrupted after its rename. None: nothing yet."""
    with folder.locked():
        return find(folder, name)


def find(folder: CastFolder, name: str) -> Installed | None:
    """``installed``, where the folder is locked already."""
    found = _read(folder, name)
    if found is None:
        return None
    present = _is_there(folder, found)
    if not found.done:
        if not present:
            return None
        sync_folders(folder)
        mark(folder, name, found)
    return Installed(name, found.epoch, found.file_name, bytes.fromhex(found.root), found.size, present)


def forget(folder: CastFolder, name: str) -> None:
    """Removes the installed file, if it is still the one, and the cast's mark. Call it with the folder locked."""
    found = _read(folder, name)
    if found and _is_there(folder, found):
        os.unlink(found.file_name, dir_fd=folder.into)
    with suppress(FileNotFoundError):
        os.unlink(name + _MARK, dir_fd=folder.kept)


def marked(folder: CastFolder) -> list[str]:
    """The names of casts that have a mark."""
    return sorted(found.removesuffix(_MARK) for found in os.listdir(folder.kept) if found.endswith(_MARK))


def sync(file: int) -> None:
    os.fsync(file)


def intend(folder: CastFolder, name: str, intent: _Mark) -> None:
    _write(folder, name, intent)


def rename(folder: CastFolder, target: Target) -> None:
    try:
        os.rename(target.partial, target.file_name, src_dir_fd=folder.kept, dst_dir_fd=folder.into)
    except OSError as error:
        raise Refused(
            f"{folder.path / target.file_name} cannot be replaced: {error.strerror}.",
            asked=f"The cast {target.name} was to be installed there.",
            kept="All its chunks are kept in a partial file.",
            advice="Move away what is there, and join the cast again.",
        ) from error


def sync_folders(folder: CastFolder) -> None:
    os.fsync(folder.into)
    os.fsync(folder.kept)


def mark(folder: CastFolder, name: str, intent: _Mark) -> None:
    _write(folder, name, _Mark(intent.epoch, intent.file_name, intent.root, intent.size, intent.inode, done=True))


def _refuse_older(folder: CastFolder, target: Target) -> None:
    for name in marked(folder):
        other = _read(folder, name)
        if other and other.epoch > target.epoch and (name == target.name or other.file_name == target.file_name):
            raise Fenced(
                f"epoch {other.epoch} of {name} is newer.",
                asked=f"Epoch {target.epoch} of {target.name} was to be installed as {target.file_name}.",
                kept="The newer file stays.",
            )


def _is_there(folder: CastFolder, wanted: _Mark) -> bool:
    try:
        found = os.stat(wanted.file_name, dir_fd=folder.into, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and (found.st_ino, found.st_size) == (wanted.inode, wanted.size)


def _read(folder: CastFolder, name: str) -> _Mark | None:
    try:
        descriptor = folder.open_kept(name + _MARK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            return _Mark(**json.loads(file.read()))
        except (ValueError, TypeError) as error:
            raise Refused(
                f"{folder.path / name}{_MARK} is not what a peer wrote.",
                asked=f"What is installed of {name} was to be read.",
                kept="It was left as it is.",
                advice="Remove it to install any epoch again.",
            ) from error


def _write(folder: CastFolder, name: str, content: _Mark) -> None:
    """Whole, and on the disk, or not at all."""
    draft = f"{name}.mark-draft"
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder.kept)
    text = json.dumps({slot: getattr(content, slot) for slot in content.__slots__})
    with os.fdopen(folder.open_kept(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, name + _MARK, src_dir_fd=folder.kept, dst_dir_fd=folder.kept)
    os.fsync(folder.kept)
