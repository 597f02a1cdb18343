"""sync-small: 20,000 fresh files of 100 KiB to the same S3 server, by headwater, rclone and s5cmd in turn.

16 transfers each. What the clock counts: carrying.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import platformdirs
from carrying import Work, compare

from headwater.stack.addresses import Addresses

FILE_BYTES = 100 * 1024
FILES_A_FOLDER = 100
GROUPS = ("upload-files", "verify-objects")


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    number, rounds = (2_000, 1) if quick else (20_000, 3)
    folder = files(number, platformdirs.user_cache_path("headwater") / "bench")
    return {"files": number, **compare(addresses, Work(folder, number, GROUPS, number, "files"), rounds)}


def files(number: int, cache: Path) -> Path:
    """The files, random and seeded by their number, made once into the cache."""
    folder = cache / f"small-{number}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=cache, prefix="draft-"))
    for each in range(number):
        place = draft / f"{each // FILES_A_FOLDER:04d}" / f"{each:06d}.bin"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(Random(each).randbytes(FILE_BYTES))
    draft.rename(folder)
    return folder
