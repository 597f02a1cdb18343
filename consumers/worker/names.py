"""A worker's name on its host, held by one process, and the numbers of its lives.

The name is stable, so that a restarted worker is a new incarnation of the one before, whose jobs the catalog then
grants anew at once. A file lock holds it: the kernel frees it however the process ends. The file remembers the newest
incarnation, so that the next is greater even where somebody set the clock back.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from itertools import count
from pathlib import Path

from headwater.rules.errors import Refused


class Name:
    """``text`` is held until ``close``. Raises Refused where ``wanted`` is held by another process of this host."""

    def __init__(self, folder: Path, pool: str, wanted: str | None) -> None:
        """Without a wish: host, pool, and the first number that is free here."""
        folder.mkdir(parents=True, exist_ok=True)
        base = f"{socket.gethostname()}-{pool}"
        for text in [wanted] if wanted else (f"{base}-{number}" for number in count()):
            descriptor = os.open(folder / f"{text}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            self.text, self._descriptor = text, descriptor
            return
        raise Refused(
            f"another process of this host is the worker {wanted}.",
            asked="A worker was to be started.",
            kept="The other one goes on.",
            advice="Give this one another worker.name, or none: it then takes a free one.",
        )

    def next_incarnation(self) -> int:
        """The time in nanoseconds, or more where that would not be greater than the last."""
        last = int(os.pread(self._descriptor, 32, 0) or b"0")
        number = max(time.time_ns(), last + 1)
        os.pwrite(self._descriptor, str(number).encode(), 0)  # never shorter than the last
        return number

    def close(self) -> None:
        os.close(self._descriptor)
