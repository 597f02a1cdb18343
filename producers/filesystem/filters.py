"""Which paths of a source are carried: gitignore patterns, over names that may be any bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pathspec import GitIgnoreSpec


class Filters:
    """``exclude`` is stronger than ``include``; an empty ``include`` takes everything. Paths are relative to the root.

    A directory is only ever left out by ``exclude``: what ``include`` names may lie anywhere below.
    """

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        self._include = GitIgnoreSpec.from_lines(include)
        self._exclude = GitIgnoreSpec.from_lines(exclude)

    def takes_file(self, path: bytes) -> bool:
        name = os.fsdecode(path)
        if self._exclude.match_file(name):
            return False
        return not len(self._include) or bool(self._include.match_file(name))

    def takes_directory(self, path: bytes) -> bool:
        return not self._exclude.match_file(os.fsdecode(path) + "/")
