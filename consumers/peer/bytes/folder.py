"""Below a target folder: where partial files and marks of what is installed lie, and nothing outside it."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.rules.errors import Refused
from headwater.schemas.cast_manifest import WORK_FOLDER, plain_file_name

_LONGEST_CAST = 200
"""Bytes of a name."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class CastFolder:
    """A target folder, by descriptor: below it no symbolic link is followed. Close it at the end."""

    def __init__(self, into: Path) -> None:
        """Makes what is missing. Raises Refused where something else than a folder is in the way."""
        self.path = into
        try:
            into.mkdir(parents=True, exist_ok=True)
            self.into = os.open(into, _DIRECTORY)
        except OSError as error:
            raise _refused(into, error) from error
        try:
            with suppress(FileExistsError):
                os.mkdir(WORK_FOLDER, dir_fd=self.into)
            self.kept = os.open(WORK_FOLDER, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.into)
        except OSError as error:
            os.close(self.into)
            raise _refused(into / WORK_FOLDER, error) from error

    def close(self) -> None:
        os.close(self.kept)
        os.close(self.into)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else, thread or process, installs or removes below this folder meanwhile."""
        descriptor = os.open(".", _DIRECTORY, dir_fd=self.kept)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def open_kept(self, name: str, flags: int) -> int:
        """A descriptor of a regular file of ours, which no name elsewhere shares.

        Raises FileNotFoundError or FileExistsError as ``flags`` say, Refused for all else.
        """
        place = self.path / WORK_FOLDER / name
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666, dir_fd=self.kept)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise _refused(place, error) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise Refused(
                f"{place} is a special file, or linked from elsewhere too.",
                asked="A cast was to be kept there.",
                kept="It was left as it is.",
                advice="Move it away.",
            )
        return descriptor


def valid_cast_name(name: str) -> bool:
    """Can a cast be called so? As a file, and short enough for its epoch and what we add."""
    return plain_file_name(name) and len(name.encode()) <= _LONGEST_CAST


def _refused(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{path} cannot be used: {error.strerror}.",
        asked=f"Casts were to be kept below {path}.",
        kept="Nothing was written.",
        advice="Name a folder that this user may write to; symbolic links below it are not followed.",
    )
