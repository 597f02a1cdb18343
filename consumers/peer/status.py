"""How far a cast is on this host, for those who look: the command line, the health of the process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.consumers.peer.download import Download, Phase


@dataclass(frozen=True, slots=True)
class CastStatus:
    """How far a cast is here. ``missing``: some of the chunks that are not here, the lowest."""

    name: str
    epoch: int
    phase: str
    reason: str
    path: Path
    size: int
    chunks: int
    had: int
    missing: tuple[int, ...]
    received_bytes: int
    outside_bytes: int
    seconds: float
    root: bytes | None
    served_out: bool
    """Every host of the rack has it."""


def status_of(download: Download) -> CastStatus:
    """From any thread."""
    manifest = download.manifest
    whole = download.phase in (Phase.complete, Phase.installed)
    return CastStatus(
        name=manifest.name,
        epoch=manifest.epoch,
        phase=download.phase,
        reason=download.reason,
        path=download.path,
        size=manifest.chunks.size,
        chunks=manifest.chunks.count,
        had=manifest.chunks.count if whole else download.had,
        missing=() if whole else tuple(download.swarm.missing()[:100]),
        received_bytes=download.received_bytes,
        outside_bytes=download.outside_bytes,
        seconds=download.seconds,
        root=manifest.root,
        served_out=download.store is None or download.swarm.rack_complete,
    )
