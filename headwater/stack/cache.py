"""Programs that are fetched or built once and kept in the user's cache folder.

An entry's folder is named after the program, its version and a digest of everything it was built from, so a change of
version or of a pinned dependency is another entry, and an entry that exists is complete:
 1. lock: one process builds an entry, others wait for it;
 2. build into a temporary folder beside it;
 3. rename the folder into place.
A crash before step 3 leaves a temporary folder that the next build of the entry removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    return platformdirs.user_cache_path("headwater")


def entry(program: str, version: str, inputs: Iterable[bytes], folder: Path | None = None) -> Path:
    """Where the program of this version, built from these inputs, is or will be."""
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(hashlib.sha256(part).digest())
    return (folder or cache_folder()) / program / f"{version}-{digest.hexdigest()[:12]}"


def built(path: Path, build: Callable[[Path], None]) -> Path:
    """The entry at ``path``, built now if it does not exist yet. Safe to call from several processes at once."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            draft = path.with_name(f"{path.name}.new")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            build(draft)
            draft.rename(path)
    return path
