"""The system calls of fanotify, and the events that it gives: fanotify(7), fanotify_mark(2), open_by_handle_at(2)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

# linux/fanotify.h
MODIFY, ATTRIB, CLOSE_WRITE = 0x02, 0x04, 0x08
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
OVERFLOW, ON_DIRECTORY = 0x4000, 0x40000000
CLOSE_ON_EXEC, NON_BLOCKING, UNLIMITED_QUEUE = 0x01, 0x02, 0x10
REPORT_DIRECTORY_AND_NAME = 0x400 | 0x800
_MARK_ADD, _MARK_FILESYSTEM = 0x01, 0x100
_INFO_DIRECTORY_AND_NAME = 2
_EVENT = struct.Struct("=IBBHQii")
"""event_len, vers, reserved, metadata_len, mask, fd, pid."""
_INFO = struct.Struct("=BxH8sIi")
"""info_type, pad, len, fsid, handle_bytes, handle_type; then the handle, and the name up to a NUL."""
_LARGEST_HANDLE = 128


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(outcome: int) -> int:
    if outcome < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return outcome


def initialise(flags: int) -> int:
    """A new group; its events are read from the descriptor. Raises OSError (EPERM, EINVAL, ENOSYS, EMFILE)."""
    return _checked(_libc().fanotify_init(ctypes.c_uint(flags), ctypes.c_uint(os.O_RDONLY)))


def mark_filesystem(group: int, mask: int, descriptor: int) -> None:
    """Hear what ``mask`` names on the whole filesystem that an open file or directory lies on."""
    marked = _libc().fanotify_mark(
        group, ctypes.c_uint(_MARK_ADD | _MARK_FILESYSTEM), ctypes.c_uint64(mask), descriptor, None
    )
    _checked(marked)


@dataclass(frozen=True, slots=True)
class Handle:
    """What names a directory of a filesystem for as long as it exists, wherever it moves."""

    filesystem: bytes
    type: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """``name`` in ``directory``; ``b"."``: the directory itself. No directory: events were lost."""

    mask: int
    directory: Handle | None
    name: bytes


def events_in(data: bytes) -> Iterator[Event]:
    """What one read of a group gave."""
    start = 0
    while start < len(data):
        length, _, _, header, mask, _, _ = _EVENT.unpack_from(data, start)
        yield _event(mask, data[start + header : start + length])
        start += length


def _event(mask: int, information: bytes) -> Event:
    while information:
        kind, length, filesystem, handle_bytes, handle_type = _INFO.unpack_from(information)
        if kind == _INFO_DIRECTORY_AND_NAME:
            name_at = _INFO.size + handle_bytes
            handle = Handle(filesystem, handle_type, information[_INFO.size : name_at])
            return Event(mask, handle, information[name_at:].partition(b"\0")[0])
        information = information[length:]
    return Event(mask, None, b"")


def filesystem_of(descriptor: int) -> bytes:
    """The identity that events give to the filesystem of an open file or directory."""
    return struct.pack("=Q", os.fstatvfs(descriptor).f_fsid)


def open_directory(mount: int, handle: Handle) -> int:
    """A descriptor (O_PATH) of the directory, as seen through an open directory ``mount`` of its filesystem.

    Raises OSError: ESTALE where it does not exist any more, EPERM without CAP_DAC_READ_SEARCH.
    """
    buffer = ctypes.create_string_buffer(struct.pack("=Ii", len(handle.content), handle.type) + handle.content)
    return _checked(_libc().open_by_handle_at(mount, buffer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


def handle_of(path: bytes) -> tuple[int, bytes]:
    """Type and content of the handle of a file or directory. Raises OSError (EOPNOTSUPP: it has none)."""
    buffer = ctypes.create_string_buffer(struct.pack("=Ii", _LARGEST_HANDLE, 0) + bytes(_LARGEST_HANDLE))
    mount = ctypes.c_int()
    at_working_folder = -100
    _checked(_libc().name_to_handle_at(at_working_folder, path, buffer, ctypes.byref(mount), 0))
    length, handle_type = struct.unpack_from("=Ii", buffer)
    return handle_type, buffer.raw[8 : 8 + length]
