"""Settings of the two upload lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UploadConfig:
    """Both lanes of one site."""

    site: str
    roots: Mapping[str, Path] = field(default_factory=dict)
    """Where this host mounts a source, if elsewhere than its agent does (the catalog knows the agent's root)."""
    transfers: int = 16
    """Whole objects in flight at once: from 16 on, more add nothing on two cores (825-1,100 files/s)."""
    part_transfers: int = 6
    """Parts in flight at once: six of 8 MiB fill 1 Gbit/s at 300 ms."""
    bytes_in_flight: int = 256 * MiB
    """Bytes held in memory at once, per lane: four of the largest whole objects, sixteen of the largest usual parts."""
    files_batch_records: int = 1_000
    """Changes between two commits of offsets: about two seconds of small files, which verify waits for at most."""
    files_piece_records: int = 250
    """Changes recorded in one catalog transaction: it costs what one change costs many times over. Four pieces a batch:
    the transfers run dry between batches only."""
    parts_batch_records: int = 64
    """64 parts are half a gigabyte: about as much as is sent before offsets move."""
    orphan_age_seconds: float = 24 * 3600.0
    """Multipart uploads that nobody continues are aborted when their last part is older. A day: no request is under way
    for so long, and no content that some path wants is given up however old."""
