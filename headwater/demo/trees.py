"""The independent check: two folders compared by the SHA-256 of every file, with none of the product's own code.

The product identifies bytes by BLAKE3 and asks its catalog what is where; this asks the two folders alone.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

Tree = dict[bytes, str]
"""Path below the folder → SHA-256 of the bytes, or ``-> target`` for a symbolic link. Empty folders are not in it."""


@dataclass(frozen=True, slots=True)
class Differences:
    missing: tuple[bytes, ...]
    """In the first folder only."""
    surplus: tuple[bytes, ...]
    """In the second folder only."""
    unequal: tuple[bytes, ...]
    """In both, with other bytes."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus or self.unequal)


def tree_of(folder: str | os.PathLike[str]) -> Tree:
    """Read every file below ``folder``."""
    root = os.fsencode(folder)
    tree: Tree = {}
    for where, folders, names in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in [*names, *links]:
            path = os.path.join(where, name)
            tree[os.path.relpath(path, root)] = _content(path)
    return tree


def compare(expected: Tree, found: Tree) -> Differences:
    return Differences(
        missing=tuple(sorted(expected.keys() - found.keys())),
        surplus=tuple(sorted(found.keys() - expected.keys())),
        unequal=tuple(sorted(path for path in expected.keys() & found.keys() if expected[path] != found[path])),
    )


def _content(path: bytes) -> str:
    if os.path.islink(path):
        return "-> " + os.readlink(path).hex()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
