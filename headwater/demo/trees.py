"""The independent check: two folders compared by the SHA-256 of every file, with none of the product's own code.

The product identifies bytes by BLAKE3 and asks its catalog what is where; this asks the two folders alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from headwater.rules.errors import Corrupt
from headwater.rules.identity import display

READ_BYTES = 1024 * 1024

Tree = dict[bytes, str]
"""Path below the folder → hash of the bytes in hex, or ``link_to(target)``. Empty folders are not in it."""


class Hash(Protocol):
    def update(self, data: bytes, /) -> object: ...

    def hexdigest(self) -> str: ...


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


def tree_of(folder: str | os.PathLike[str], new_hash: Callable[[], Hash] = sha256) -> Tree:
    """Read every file below ``folder``."""
    root = os.fsencode(folder)
    tree: Tree = {}
    for where, folders, names in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in [*names, *links]:
            path = os.path.join(where, name)
            tree[os.path.relpath(path, root)] = content(path, new_hash())
    return tree


def link_to(target: bytes) -> str:
    return "-> " + target.hex()


def compare(expected: Tree, found: Tree) -> Differences:
    return Differences(
        missing=tuple(sorted(expected.keys() - found.keys())),
        surplus=tuple(sorted(found.keys() - expected.keys())),
        unequal=tuple(sorted(path for path in expected.keys() & found.keys() if expected[path] != found[path])),
    )


def content(path: bytes, hash_: Hash) -> str:
    """What a tree says of one file or link."""
    if os.path.islink(path):
        return link_to(os.readlink(path))
    with open(path, "rb") as file:
        while data := file.read(READ_BYTES):
            hash_.update(data)
    return hash_.hexdigest()


def require_equal(expected: Tree, found: Tree, *, asked: str, advice: str) -> None:
    """Raises Corrupt, which names the first differences."""
    differences = compare(expected, found)
    if differences:
        first = [*differences.missing, *differences.surplus, *differences.unequal][:3]
        raise Corrupt(
            f"{len(differences.missing)} files are missing, {len(differences.surplus)} are too many, "
            f"{len(differences.unequal)} have other bytes, among them {', '.join(map(display, first))}.",
            asked=asked,
            kept="Both folders and all logs are kept.",
            advice=advice,
        )
