"""A folder as a place that nothing gets out of: every step below its root refuses symbolic links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from headwater.rules.errors import Refused
from headwater.rules.identity import display

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def stays_below(path: bytes) -> bool:
    """Does a path name something below a root? Not one that is absolute or has empty, ``.`` or ``..`` parts."""
    return not any(part in (b"", b".", b"..") or b"\0" in part for part in path.split(b"/"))


@contextmanager
def parent_of(root: bytes, path: bytes, *, create: bool) -> Iterator[tuple[int, bytes]]:
    """A descriptor of the directory that holds ``path`` below ``root``, and the last part of its name.

    Raises Refused for a path that does not stay below, OSError where a part is missing, or is no directory but a
    symbolic link, say. ``create`` makes the missing ones.
    """
    parts = path.split(b"/")
    if not stays_below(path):
        raise Refused(f"the path {display(path)!r} would leave its folder", kept="Nothing was read or written there.")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            below = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, parts[-1]
    finally:
        os.close(descriptor)


@contextmanager
def nearest_to(root: bytes, path: bytes) -> Iterator[int]:
    """A descriptor of the last directory on the way from ``root`` to ``path`` that is there."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.split(b"/")[:-1]:
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError:
                break
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_below(root: bytes, path: bytes) -> Iterator[BinaryIO]:
    """A regular file below ``root``, for reading. Raises what ``parent_of`` raises."""
    with parent_of(root, path, create=False) as (folder, name):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            yield file
