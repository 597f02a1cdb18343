"""What is simulated: the fleet, its network and disks, the file, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.rules.cast.chunks import MIB, Chunks
from headwater.rules.errors import BadSettings


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cast from one origin, outside all racks, to ``hosts`` in ``racks``; the defaults are the case of the bars.

    Rates are payload: what TCP and MTU take off a link is taken off before. Raises BadSettings.
    """

    hosts: int = 1000
    racks: int = 25
    size_bytes: int = 100_000_000_000
    chunk_bytes: int = 16 * MIB
    nic_bytes_per_second: float = 3.125e9
    """Of every host and the origin, each way."""
    oversubscription: float = 8.0
    """All NICs of a rack over its uplink, which has the same rate each way."""
    disk_read_bytes_per_second: float | None = None
    """None: reading is no limit."""
    disk_write_bytes_per_second: float | None = None
    disk_bytes_per_second: float | None = None
    """Reads and writes of a host together; None: they do not take from each other."""
    page_cache_bytes: float | None = None
    """A chunk is served from memory until so many more bytes came in; None: always, 0: never."""
    hash_bytes_per_second: float = 12e9
    """How fast the origin computes chunk hashes: a chunk is offered when it has one."""
    have_seconds: float = 0.020
    """From a verified chunk until a rack-mate may ask for it: HAVE is sent in batches."""
    across_seconds: float = 0.020
    """The same to another rack, and from the origin's offer to the request."""
    busy_seconds: float = 0.020
    """A source that said BUSY is not asked again for so long."""
    gossip_seconds: float = 1.0
    """How often the racks' summaries are renewed: only fallbacks need them."""
    detect_seconds: float = 1.0
    """From a host's death, which says nothing to anybody, until it is out of every list."""
    crashes: int = 0
    crash_share: float = 0.5
    """The hosts crash when the fleet has so much of all bytes."""
    slow: int = 0
    slow_share: float = 0.25
    """Of the NIC's and the disk's rate, from the beginning."""
    slow_known_seconds: float = 3.0
    """From the beginning until the slow ones are out of the ranks of importers."""
    late: int = 0
    late_seconds: float = 0.0
    """When the late joiners join."""
    step_seconds: float = 0.0
    """How often rates are shared anew; 0: 80 times in the time of a host's full set of chunks, at most 2 ms."""
    sample_seconds: float = 0.1
    """Of the timeline."""
    sampled_hosts: int = 0
    """Of so many hosts, from the first on, the bits of their chunks are kept for each second."""
    limit_seconds: float = 3600.0
    """The simulation ends here, complete or not."""
    seed: int = 1

    def __post_init__(self) -> None:
        Chunks(self.size_bytes, self.chunk_bytes)
        if not 0 < self.racks <= self.hosts:
            raise _refused(f"there are {self.racks} racks for {self.hosts} hosts.")
        if self.crashes + self.slow + self.late > self.hosts:
            raise _refused(f"{self.crashes} crash, {self.slow} are slow, {self.late} are late, of {self.hosts} hosts.")
        if not 0 < self.slow_share <= 1 or not 0 <= self.crash_share <= 1:
            raise _refused("a share is not between 0 and 1.")
        if min(self.nic_bytes_per_second, self.oversubscription, self.hash_bytes_per_second, self.size_bytes) <= 0:
            raise _refused("a rate, the oversubscription or the size is not above 0.")

    @property
    def chunks(self) -> Chunks:
        return Chunks(self.size_bytes, self.chunk_bytes)

    def rack_of(self) -> NDArray[np.int64]:
        """The rack of each host: neighbours in number, racks of sizes that differ by one at most."""
        return np.arange(self.hosts, dtype=np.int64) * self.racks // self.hosts

    def struck(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Hosts that crash, that are slow, and that join late: chosen by the seed, each host at most once."""
        chosen = np.random.default_rng(self.seed).permutation(self.hosts)
        ends = np.cumsum([self.crashes, self.slow, self.late])
        return chosen[: ends[0]], chosen[ends[0] : ends[1]], chosen[ends[1] : ends[2]]


def _refused(happened: str) -> BadSettings:
    return BadSettings(
        happened, asked="A cast was to be simulated.", kept="Nothing was computed.", advice="Correct the scenario."
    )
