"""Which epoch of each cast is installed below a target folder."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.consumers.peer.folder import CastFolder


@dataclass(frozen=True, slots=True)
class Installed:
    """``present``: the file is still there as it was installed; else somebody changed or removed it."""

    name: str
    epoch: int
    file_name: str
    root: bytes
    size: int
    present: bool


def installed(folder: CastFolder, name: str) -> Installed | None:
    """What is installed of a cast. Completes an installation that a crash interrupted after its rename."""
    raise NotImplementedError
