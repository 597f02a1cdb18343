"""One end of a pair: ``give`` serves a file until its input ends, ``take`` receives it as often as it is told to.

The taker can leave out what a peer does with the bytes, step by step, so that the rest shows what each step costs.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from blake3 import blake3

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.fetch import Fetch, Fetched, Fetches, Outcome
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.serve import Uploads
from headwater.consumers.peer.bytes.wire import Identity
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.cast.bitmap import Bits
from headwater.rules.cast.choice import IN_FLIGHT
from headwater.rules.cast.chunks import HASH_BYTES, Chunks, chunk_bytes_for, root_of

EPOCH = 1
KEY = wire.key_from("the benchmark's own secret")
CONFIG = PeerConfig(fetches=IN_FLIGHT)
STEPS = ("receive", "hash", "peer")
"""What the taker does: only receive; hash too; all that a peer does, to the installed file."""


def chunks_of(file: Path) -> Chunks:
    size = file.stat().st_size
    return Chunks(size, chunk_bytes_for(size))


def hashes_of(file: Path) -> bytes:
    chunks = chunks_of(file)
    with file.open("rb") as source:
        return b"".join(blake3(source.read(chunks.chunk_bytes)).digest() for _ in range(chunks.count))


def give(address: str, file: Path) -> None:
    """Prints the port, then the CPU seconds used whenever a line comes in."""
    seed = SeedFile(file, chunks_of(file))
    seed.learn(0, hashes_of(file))
    config = replace(CONFIG, listen=address)
    uploads = Uploads(
        config, Identity("giver", 1), KEY, Limits(),
        stores={EPOCH: seed}.get, on_control=lambda _: None, on_served=lambda _: None,
    )  # fmt: skip
    uploads.start()
    say(uploads.port)
    for _ in sys.stdin:
        say(cpu_seconds())
    uploads.close()


def take(address: str, file: Path, into: Path) -> None:
    """For each line, one of STEPS, that comes in: receives the file whole, prints the seconds and CPU seconds."""
    chunks, hashes = chunks_of(file), hashes_of(file)
    fetched: SimpleQueue[Fetched] = SimpleQueue()
    fetches = Fetches(CONFIG, Identity("taker", 1), KEY, Limits(), fetched.put)
    folder = CastFolder(into)
    say("ready")
    for number, line in enumerate(sys.stdin):
        step = line.strip()
        store = PartialFile(folder, "pair", number, file.name, chunks) if step == "peer" else Passing(chunks, step)
        store.learn(0, hashes)
        used, began = cpu_seconds(), time.perf_counter()
        for chunk in range(chunks.count):
            fetches.submit(Fetch(EPOCH, chunk, "giver", 1, address, store))
        for _ in range(chunks.count):
            one = fetched.get()
            assert one.outcome is Outcome.verified, one
        if isinstance(store, PartialFile):
            store.install(root_of(chunks, hashes))
        say([time.perf_counter() - began, cpu_seconds() - used])
        if isinstance(store, PartialFile):
            store.close()
    fetches.close()


class Passing:
    """A store that keeps nothing: ``receive`` does nothing with the bytes, ``hash`` only proves them."""

    def __init__(self, chunks: Chunks, step: str) -> None:
        self.chunks = chunks
        self._step = step
        self._hashes = b""

    def learn(self, first: int, hashes: bytes) -> None:
        assert first == 0
        self._hashes = hashes

    def begin(self, chunk: int) -> PassingWriter:
        expected = self._hashes[chunk * HASH_BYTES : (chunk + 1) * HASH_BYTES]
        return PassingWriter(expected if self._step == "hash" else None)

    def has(self, chunk: int) -> bool:
        raise NotImplementedError

    def had(self) -> Bits:
        raise NotImplementedError

    def serve(self, chunk: int) -> tuple[int, int, int]:
        raise NotImplementedError

    def unchanged(self) -> None:
        raise NotImplementedError


class PassingWriter:
    def __init__(self, expected: bytes | None) -> None:
        self._expected = expected
        self._hash = blake3()

    def write(self, piece: memoryview) -> None:
        if self._expected is not None:
            self._hash.update(piece)

    def finish(self) -> bool:
        return self._expected is None or self._hash.digest() == self._expected

    def close(self) -> None:
        pass


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def say(something: object) -> None:
    print(json.dumps(something), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "give":
        give(sys.argv[2], Path(sys.argv[3]))
    else:
        take(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
