"""A number for each run that makes namespaces, and the end of what dead runs left.

A run holds a lock on its number's file for its life. The kernel gives the lock up with the process, however that ends,
so a file that can be locked belongs to a dead run: everything with its number is then removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import TextIO

from headwater.rules.errors import Unavailable
from headwater.stack import processes

FOLDER = Path("/run/headwater-fleet")
_NUMBERS = range(50)
_LEAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """``home`` holds the run's servers, logs and files, and goes with the run; None where the number had no run."""

    number: int
    home: Path | None

    @property
    def prefix(self) -> str:
        """Begins the name of each namespace of the run, and of its one link outside them."""
        return f"hwf{self.number}-"

    @property
    def outside_link(self) -> str:
        return f"{self.prefix}here"

    @property
    def management(self) -> IPv4Network:
        """The only network of the run that this machine itself sees."""
        return IPv4Network(f"10.{200 + self.number}.0.0/16")


@contextmanager
def claim(home: Path) -> Iterator[Claim]:
    """A number of one's own until the block ends. First, what dead runs left is removed.

    Raises Unavailable where all numbers are taken.
    """
    FOLDER.mkdir(exist_ok=True)
    sweep()
    for number in _NUMBERS:
        with (FOLDER / str(number)).open("a+") as file:
            if not _locked(file) or _routed(number):
                continue
            remove(_of(number, file))
            own = Claim(number, home)
            file.truncate(0)
            file.write(str(home))
            file.flush()
            try:
                yield own
            finally:
                remove(own)
                file.truncate(0)
            return
    raise Unavailable(f"All {len(_NUMBERS)} numbers of fleets in {FOLDER} are taken.")


def sweep() -> None:
    """Remove what dead runs left."""
    for path in FOLDER.iterdir():
        with path.open("a+") as file:
            if _locked(file):
                remove(_of(int(path.name), file))
                file.truncate(0)


def remove(run: Claim) -> None:
    """End the run's processes and servers; remove its namespaces with all links, and its home."""
    for namespace in namespaces(run):
        _end_processes(namespace)
    if run.home is not None:
        for name in processes.names(run.home):
            processes.stop(name, run.home, polite=signal.SIGINT)
        shutil.rmtree(run.home, ignore_errors=True)
    # The kernel takes a deleted namespace's links down some time later; this one would be in the next run's way.
    subprocess.run(["ip", "link", "delete", run.outside_link], capture_output=True, check=False)
    for namespace in namespaces(run):
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


def namespaces(run: Claim) -> list[str]:
    listed = subprocess.run(["ip", "-j", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [entry["name"] for entry in json.loads(listed or "[]") if entry["name"].startswith(run.prefix)]


def _end_processes(namespace: str) -> None:
    deadline = time.monotonic() + _LEAVE_SECONDS
    while pids := _pids(namespace):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Unavailable(f"Processes {pids} in {namespace} do not end.")
        time.sleep(0.02)


def _pids(namespace: str) -> list[int]:
    said = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in said.split()]


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _of(number: int, file: TextIO) -> Claim:
    """The run that had the number."""
    file.seek(0)
    home = file.read()
    return Claim(number, Path(home) if home else None)


def _routed(number: int) -> bool:
    """Whether the machine has such a network already."""
    listed = subprocess.run(["ip", "-j", "route"], capture_output=True, text=True, check=True).stdout
    routes = [route["dst"] for route in json.loads(listed or "[]") if route["dst"] != "default"]
    return any(IPv4Network(route, strict=False).overlaps(Claim(number, None).management) for route in routes)
