"""Below a target folder: where partial files and marks of what is installed lie, and nothing outside it."""

from __future__ import annotations

from pathlib import Path

KEPT = ".headwater-cast"
"""The folder, below the target folder, of everything that is not an installed file."""


class CastFolder:
    """A target folder, by descriptor: a symbolic link on any way below it is refused. Close it at the end."""

    def __init__(self, into: Path) -> None:
        """Makes what is missing. Raises Refused where something else than a folder is in the way."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def valid_name(name: str) -> bool:
    """May a manifest name a file or a cast so? One plain component of at most 255 bytes, and not ours."""
    raise NotImplementedError
