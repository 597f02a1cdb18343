"""A group's slots on a host: each running member holds one number, and its transactional id carries it.

The id must be stable, so that a restarted member's ``init_transactions`` aborts what its predecessor left open at
once; and it must be held by one process only, or two members would fence each other. A file lock gives both: the
kernel frees it however the process ends.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True, slots=True)
class Slot:
    """A locked number. A context manager: leaving it frees the number."""

    group: str
    host: str
    number: int
    descriptor: int

    @property
    def transactional_id(self) -> str:
        return f"{self.group}.{self.host}.{self.number}"

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self.descriptor)


def take_slot(folder: Path, group: str, host: str) -> Slot:
    """The first number of ``group`` that no process on this host holds."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in count():
        descriptor = os.open(folder / f"{group}.{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return Slot(group, host, number, descriptor)
    raise AssertionError("count() does not end")
