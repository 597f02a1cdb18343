"""What people do to a media folder while it is being synced: edits, atomic saves, renames, deletes, arrivals.

Each function changes the folder and says what it did in one sentence a change. They choose with the given random
numbers, take no file twice when they share a ``Picker``, and make do with what a small folder has.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from headwater.demo.media import files_below, retouched
from headwater.rules.identity import display

LARGE_BYTES = 64 * 1024 * 1024
LARGEST_DELETED_SHARE = 0.05
"""Well below the share of a source's files whose deletion the agent believes without asking (10 % a day)."""


class Picker:
    """Hands out files of a folder, each at most once, so that no two changes meet in one file."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self._files = [path for path in files_below(folder) if path.is_file() and not path.is_symlink()]
        self.total = len(self._files)
        self._sizes = {path: path.stat().st_size for path in self._files}
        random.shuffle(self._files)

    def take(self, count: int, wanted: Callable[[Path, int], bool] = lambda _path, size: size > 0) -> list[Path]:
        """Up to ``count`` files for which ``wanted(path, size)`` holds."""
        taken = [path for path in self._files if wanted(path, self._sizes[path])][:count]
        self._files = [path for path in self._files if path not in taken]
        return taken

    def take_folder(self, most_files: int) -> Path | None:
        """The folder with the most files, all of them not yet taken and at most ``most_files``."""
        held = {folder: [path for path in self._files if folder in path.parents] for folder in self._folders()}
        free = {
            folder: len(paths)
            for folder, paths in held.items()
            if len(paths) == sum(path.is_file() for path in files_below(folder)) and 0 < len(paths) <= most_files
        }
        if not free:
            return None
        chosen = max(free, key=lambda folder: (free[folder], str(folder)))
        self._files = [path for path in self._files if chosen not in path.parents]
        return chosen

    def _folders(self) -> set[Path]:
        return {folder for path in self._files for folder in path.parents if self.folder in folder.parents}


def retouch(picker: Picker, count: int) -> list[str]:
    """Save photographs again in place; a file that is no photograph grows by a line."""
    said = []
    for path in picker.take(count, lambda _path, size: 0 < size <= LARGE_BYTES):
        path.write_bytes(retouched(path) or path.read_bytes() + b"edited by the demo\n")
        said.append(f"edited {shown(path, picker.folder)}")
    return said


def save_atomically(picker: Picker, count: int) -> list[str]:
    """As editors save: the new state is written beside, flushed, and renamed over the old one."""
    said = []
    for path in picker.take(count, lambda _path, size: 0 < size <= LARGE_BYTES):
        draft = path.with_name(f".{path.name[:100]}.swp")
        with draft.open("wb") as file:
            file.write(retouched(path) or path.read_bytes() + b"saved by the demo\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        said.append(f"saved {shown(path, picker.folder)} by way of a temporary file")
    return said


def overwrite_in_the_middle(picker: Picker) -> list[str]:
    """One large file gets another 1 MiB in its middle, its length kept: only its hash can tell."""
    said = []
    for path in picker.take(1, lambda _path, size: size > LARGE_BYTES):
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(Random(path.name).randbytes(1024 * 1024))
        said.append(f"overwrote 1 MiB in the middle of {shown(path, picker.folder)}")
    return said


def rename_files(picker: Picker, count: int) -> list[str]:
    """Rename files where they are, a large one among them: no byte of them needs to be sent."""
    large = picker.take(1, lambda _path, size: size > LARGE_BYTES)
    said = []
    for path in [*large, *picker.take(count - len(large))]:
        target = path.with_name(f"renamed {path.name[-100:]}")
        path.rename(target)
        said.append(f"renamed {shown(path, picker.folder)} to {shown(target, picker.folder)}")
    return said


def rename_a_folder(picker: Picker) -> list[str]:
    """Rename a whole folder, with every path below it."""
    folder = picker.take_folder(most_files=60)
    if folder is None:
        return []
    files = sum(1 for _ in files_below(folder))
    target = folder.with_name(f"{folder.name} (sorted)")
    folder.rename(target)
    where = shown(folder, picker.folder)
    return [f"renamed the folder {where} with {files} files to {shown(target, picker.folder)}"]


def delete(picker: Picker, count: int) -> list[str]:
    """Delete a few files, never so many that the agent would rather ask."""
    most = int(picker.total * LARGEST_DELETED_SHARE)
    said = []
    for path in picker.take(min(count, most)):
        path.unlink()
        said.append(f"deleted {shown(path, picker.folder)}")
    return said


def arrive(arrivals: Path, folder: Path) -> list[str]:
    """Copy new media in, as from a camera's card."""
    shutil.copytree(arrivals, folder, dirs_exist_ok=True)
    files = [path for path in files_below(arrivals) if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return [f"added {len(files)} new files, {size / 2**20:,.0f} MiB"]


def record(path: Path, seconds: float) -> None:
    """A file that grows for ``seconds``, as a recording does; never quiet for long enough to be taken half-done."""
    random = Random(path.name)
    until = time.monotonic() + seconds
    with path.open("wb") as file:
        while time.monotonic() < until:
            file.write(random.randbytes(256 * 1024))
            file.flush()
            time.sleep(0.25)


def shown(path: Path, folder: Path) -> str:
    """A path below ``folder`` for people."""
    return display(os.fsencode(path.relative_to(folder)))
