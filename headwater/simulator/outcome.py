"""What a simulated cast came to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times are seconds of the simulated clock, from the start of the cast."""

    finish_seconds: NDArray[np.float64]
    """When each host had the whole file: nan where it crashed or did not complete."""
    crashed: NDArray[np.int64]
    slow: NDArray[np.int64]
    late: NDArray[np.int64]
    origin_bytes: float
    inter_rack_bytes: float
    """Into racks, from the origin and from other racks, what was broken off with it."""
    disk_read_bytes: float
    """Re-served from disk, not from the page cache. Counted only where the scenario limits disks."""
    copies_per_rack: NDArray[np.float64]
    """Whole chunks that came into each rack, over the chunks of the file."""
    timeline_seconds: NDArray[np.float64]
    timeline_share: NDArray[np.float64]
    """Of all bytes that all hosts are to have, at each time of the timeline."""
    samples: NDArray[np.uint8]
    """Packed bits (numpy.packbits) of the sampled hosts' chunks: (second, host, byte)."""
    steps: int
    transfers: int
    """Transfers begun: the chunks' and those that were broken off."""
    busy: int
    hedged: int
    abandoned: int
    fallbacks: int
    """Imports that did not come down the tree."""
    cpu_seconds: float
    """Of the simulation, without compiling it."""

    def healthy_seconds(self) -> float:
        """When the last host was complete that neither crashed, nor is slow, nor joined late; inf if one never was."""
        others = np.ones(len(self.finish_seconds), np.bool_)
        others[np.concatenate([self.crashed, self.slow, self.late])] = False
        finished = self.finish_seconds[others]
        return float(np.where(np.isnan(finished), np.inf, finished).max())
