"""What a transfer takes of its process does not grow with the file.

Scaled: 256 MiB where the case has 1 TB; the receiving process (this file, as a script) says after each part of it how
much memory it ever had, and how many descriptors it has. What grows with the cast are 32 bytes a chunk: half a megabyte
for 1 TB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from blake3 import blake3

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.fetch import Fetch, Fetched, Fetches, Outcome
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.wire import Identity
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.cast.chunks import Chunks

MIB = 1024 * 1024
CHUNKS = Chunks(256 * MIB, MIB)
HASHES = blake3(bytes(MIB)).digest() * CHUNKS.count
PARTS = 8
SECRET = "the fleet's own secret"
MOST_MIB = 512
"""What a peer may have in the case; ours has Python and its libraries in it already."""


def receive(address: str, into: str) -> None:
    fetched: SimpleQueue[Fetched] = SimpleQueue()
    fetches = Fetches(PeerConfig(), Identity("taker", 1), wire.key_from(SECRET), Limits(), fetched.put)
    store = PartialFile(CastFolder(Path(into)), "weights", 7, "w.bin", CHUNKS)
    store.learn(0, HASHES)
    for part in range(PARTS):
        for chunk in range(part * CHUNKS.count // PARTS, (part + 1) * CHUNKS.count // PARTS):
            fetches.submit(Fetch(7, chunk, "giver", 1, address, store))
        outcomes = {fetched.get(timeout=60).outcome for _ in range(CHUNKS.count // PARTS)}
        assert outcomes == {Outcome.verified}, outcomes
        print(json.dumps([peak_mib(), len(os.listdir("/proc/self/fd"))]), flush=True)


def peak_mib() -> float:
    """Of this program alone: getrusage's peak is that of the process which started it too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def test_memory_and_descriptors_do_not_grow_with_the_file(fleet: Any) -> None:
    path = fleet.folder / "zeros"
    with path.open("wb") as file:
        file.truncate(CHUNKS.size)
    seed = SeedFile(path, CHUNKS)
    seed.learn(0, HASHES)
    giver = fleet.giver(seed, uploads=64)

    done = subprocess.run(
        [sys.executable, __file__, giver.address, str(fleet.folder / "into")],
        timeout=120,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr.decode()
    said = [json.loads(line) for line in done.stdout.splitlines()]
    peaks, descriptors = [peak for peak, _ in said], [count for _, count in said]
    assert len(said) == PARTS
    assert peaks[-1] - peaks[0] < 8, peaks
    assert peaks[-1] < MOST_MIB
    assert max(descriptors) - min(descriptors) <= PeerConfig().fetches, descriptors  # connections that are kept


if __name__ == "__main__":
    receive(*sys.argv[1:])
