"""Peers of the data plane in one process: real sockets, real files, no Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from blake3 import blake3

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.fetch import Fetch, Fetched, Fetches
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.serve import Served, Uploads
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.bytes.wire import Connection, Identity
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.cast.chunks import Chunks, root_of

MIB = 1024 * 1024
EPOCH = 7
SECRET = "the fleet's own secret"


@dataclass
class Content:
    """A file, its chunks and what the manifest says of them."""

    path: Path
    data: bytes
    chunks: Chunks

    @property
    def hashes(self) -> bytes:
        spans = (self.chunks.span(chunk) for chunk in range(self.chunks.count))
        return b"".join(blake3(self.data[start : start + length]).digest() for start, length in spans)

    @property
    def root(self) -> bytes:
        return root_of(self.chunks, self.hashes)

    def seed(self) -> SeedFile:
        seed = SeedFile(self.path, self.chunks)
        seed.learn(0, self.hashes)
        return seed

    def partial(
        self, folder: CastFolder, epoch: int = EPOCH, name: str = "weights", file: str = "w.bin"
    ) -> PartialFile:
        partial = PartialFile(folder, name, epoch, file, self.chunks)
        partial.learn(0, self.hashes)
        return partial

    def fill(self, partial: PartialFile) -> PartialFile:
        for chunk in range(self.chunks.count):
            assert self.give(partial, chunk)
        return partial

    def give(self, store: ChunkStore, chunk: int, data: bytes | None = None) -> bool:
        """As a fetch does it."""
        start, length = self.chunks.span(chunk)
        writer = store.begin(chunk)
        try:
            writer.write(memoryview(self.data[start : start + length] if data is None else data))
            return writer.finish()
        finally:
            writer.close()


@dataclass
class Giver:
    """A peer that serves ``stores``."""

    uploads: Uploads
    identity: Identity
    stores: dict[int, ChunkStore]
    served: SimpleQueue[Served]
    control: SimpleQueue[Connection]
    limits: Limits

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.uploads.port}"


@dataclass
class Taker:
    """A peer that fetches."""

    fetches: Fetches
    fetched: SimpleQueue[Fetched]
    limits: Limits

    def ask(self, giver: Giver, store: ChunkStore, chunk: int, epoch: int = EPOCH) -> Fetch:
        fetch = Fetch(epoch, chunk, giver.identity.host, giver.identity.incarnation, giver.address, store)
        self.fetches.submit(fetch)
        return fetch

    def get(self, giver: Giver, store: ChunkStore, chunk: int, epoch: int = EPOCH) -> Fetched:
        self.ask(giver, store, chunk, epoch)
        return self.fetched.get(timeout=20)


class Fleet:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = PeerConfig(host="here", listen="127.0.0.1", handshake_seconds=2.0, stall_seconds=2.0, fetches=4)
        self._to_close: list[Callable[[], None]] = []

    def content(self, size: int, chunk_bytes: int = MIB, name: str = "source.bin") -> Content:
        data = random.Random(size).randbytes(size)
        path = self.folder / name
        path.write_bytes(data)
        return Content(path, data, Chunks(size, chunk_bytes))

    def into(self, name: str = "into") -> CastFolder:
        folder = CastFolder(self.folder / name)
        self._to_close.append(folder.close)
        return folder

    def giver(self, *stores: ChunkStore, host: str = "giver", secret: str = SECRET, **changes: Any) -> Giver:
        rack_mate = changes.pop("rack_mate", None)
        config, identity = replace(self.config, **changes), Identity(host, 1)
        limits = Limits(config.bytes_per_second)
        by_epoch = {EPOCH + number: store for number, store in enumerate(stores)}
        served: SimpleQueue[Served] = SimpleQueue()
        control: SimpleQueue[Connection] = SimpleQueue()
        uploads = Uploads(
            config,
            identity,
            wire.key_from(secret),
            limits,
            stores=by_epoch.get,
            on_control=control.put,
            on_served=served.put,
            rack_mate=rack_mate,
        )
        self._to_close.append(uploads.close)
        uploads.start()
        return Giver(uploads, identity, by_epoch, served, control, limits)

    def taker(self, host: str = "taker", secret: str = SECRET, **changes: Any) -> Taker:
        config = replace(self.config, **changes)
        limits = Limits(config.bytes_per_second)
        fetched: SimpleQueue[Fetched] = SimpleQueue()
        fetches = Fetches(config, Identity(host, 1), wire.key_from(secret), limits, fetched.put)
        self._to_close.append(fetches.close)
        return Taker(fetches, fetched, limits)

    def close(self) -> None:
        for close in reversed(self._to_close):
            close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()
