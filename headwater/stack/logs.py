"""The log files of a home's processes: the servers' and our own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.rules.errors import NotFound
from headwater.stack.processes import log_path

_POLL_SECONDS = 0.25
_BLOCK_BYTES = 64 * 1024


def log_names(home: Path) -> list[str]:
    """The processes that have a log below ``home``."""
    return sorted(path.stem for path in (home / "logs").glob("*.log"))


def tail(name: str, home: Path, lines: int = 100) -> list[str]:
    """The last ``lines`` lines that process ``name`` wrote, oldest first.

    Raises:
        NotFound: no process of that name has ever logged at this home.
    """
    with _existing(name, home).open("rb") as file:
        return _last_lines(file.fileno(), lines)


def follow(
    name: str,
    home: Path,
    lines: int = 100,
    *,
    until: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """The last ``lines`` lines and then each new one as it is written, until ``until`` says so.

    A log that is cut short (rotated in place) is read again from its start.
    """
    with _existing(name, home).open("rb") as file:
        yield from _last_lines(file.fileno(), lines)
        file.seek(0, os.SEEK_END)
        unfinished = b""
        while True:
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)
            block = file.read(_BLOCK_BYTES)
            *whole, unfinished = (unfinished + block).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
            if not block:
                if until():
                    return
                sleep(_POLL_SECONDS)


def _existing(name: str, home: Path) -> Path:
    path = log_path(name, home)
    if not path.exists():
        known = ", ".join(log_names(home)) or "none yet"
        raise NotFound(f"There is no log of {name!r} at {home}.", advice=f"Logs there: {known}.")
    return path


def _last_lines(descriptor: int, lines: int) -> list[str]:
    """Reads backwards, block by block, so that a log of any size costs the same."""
    position = os.fstat(descriptor).st_size
    text = b""
    while position > 0 and text.count(b"\n") <= lines:
        size = min(_BLOCK_BYTES, position)
        position -= size
        text = os.pread(descriptor, size, position) + text
    whole = text.decode(errors="replace").splitlines()
    return whole[max(0, len(whole) - lines) :]
