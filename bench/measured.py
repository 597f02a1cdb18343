"""One run of a program: how long, how much memory, how much CPU, and what it said."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.rules.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Measured:
    """``rss_mib``: the most memory that the process had resident at a time. ``cpu_seconds``: of all its threads."""

    seconds: float
    rss_mib: float
    cpu_seconds: float
    output: str
    errors: str


def measured(argv: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Run it to its end. Raises Unavailable where it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(argv, env=dict(environment), stdout=output, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said = [file.seek(0) or file.read().decode(errors="replace") for file in (output, errors)]
    if process.returncode != 0:
        raise Unavailable(f"{Path(argv[0]).name} {argv[1]} ended with {process.returncode}: {said[1].strip()[-500:]}")
    return Measured(seconds, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, *said)
