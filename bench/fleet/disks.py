"""What lies on the hosts' disks: sha256sum says whether it is right, and here bits are flipped behind a peer's back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

_STRIDE = 1024 * 1024
"""A flipped bit in each so many bytes: no chunk is smaller."""


def sha256(paths: Iterable[Path]) -> Mapping[Path, str]:
    """By another program than ours."""
    said = subprocess.run(["sha256sum", "--zero", *paths], capture_output=True, check=True).stdout
    lines = (line.split("  ", 1) for line in os.fsdecode(said).split("\0") if line)
    return {Path(name): digest for digest, name in lines}


def wrong_bytes(source: Path, copies: Iterable[Path]) -> int:
    """Bytes in which copies differ from the source; of a copy that is not there, all."""
    copies = list(copies)
    there = [path for path in copies if path.is_file()]
    digests = sha256([source, *there])
    wrong = [path for path in there if digests[path] != digests[source]]
    return source.stat().st_size * (len(copies) - len(there)) + sum(_differing(source, path) for path in wrong)


def _differing(source: Path, copy: Path) -> int:
    one, other = (np.fromfile(path, np.uint8) for path in (source, copy))
    shared = min(len(one), len(other))
    return int(np.count_nonzero(one[:shared] != other[:shared])) + abs(len(one) - len(other))


def poison(into: Path) -> int:
    """Flip bits of every chunk that lies in a folder's unfinished files, behind their owner's back. How many bits."""
    flipped = 0
    for path in (into / ".headwater-cast").glob("*.partial"):
        with path.open("r+b") as file:
            for place in range(_STRIDE // 2, path.stat().st_size, _STRIDE):
                before = os.pread(file.fileno(), 1, place)
                os.pwrite(file.fileno(), bytes([before[0] ^ 0x10]), place)
                flipped += 1
    return flipped


def received_share(into: Path, name: str) -> float:
    """How much of an unfinished or installed file of random bytes is there, by looking at it: no peer is asked."""
    unfinished = [*(into / ".headwater-cast").glob("*.partial")]
    path = unfinished[0] if unfinished else into / name
    if not path.exists() or not path.stat().st_size:
        return 0.0
    blocks = np.memmap(path, np.uint8, "r")[:: _STRIDE // 16]
    return float(np.count_nonzero(blocks) / len(blocks))
