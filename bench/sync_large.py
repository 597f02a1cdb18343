"""sync-large: one fresh file of 4 GiB to the same S3 server, by headwater, rclone and s5cmd in turn.

headwater reads the file twice, as it sends nothing before a whole read has proved that nobody wrote meanwhile; and
counts both. Everybody sends parts as its defaults say, rclone as many at once as headwater. What the clock counts:
carrying.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import platformdirs
from carrying import Work, compare

from headwater.stack.addresses import Addresses

MIB = 1024 * 1024
BLOCK = 16 * MIB
GROUPS = ("upload-files", "upload-parts", "verify-large")


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    size, rounds = (512 * MIB, 1) if quick else (4096 * MIB, 5)
    folder = file_of(size, platformdirs.user_cache_path("headwater") / "bench")
    return {"mib": size // MIB, **compare(addresses, Work(folder, 1, GROUPS, size // MIB, "mib"), rounds)}


def file_of(size: int, cache: Path) -> Path:
    """The folder of one random file, seeded, made once into the cache."""
    folder = cache / f"large-{size // MIB}"
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "film.bin"
    if not place.exists():
        draft, random = folder.with_suffix(".draft"), Random(size)
        with draft.open("wb") as file:
            for _ in range(size // BLOCK):
                file.write(random.randbytes(BLOCK))
        os.replace(draft, place)
    return folder
