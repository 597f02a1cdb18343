"""A fleet that casts nothing: its peers say on the log, in real encodings, what a test's script has them say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.partitioning import partition_of
from headwater.connectors.kafka.reading import messages
from headwater.rules.cast.bitmap import Bits, pack
from headwater.rules.cast.chunks import Chunks, root_of
from headwater.schemas.cast_records import (
    CastAvailability,
    CastEvent,
    CastEventKind,
    CastManifest,
    CastMember,
    CastProgress,
    CastRack,
    CastState,
    ManifestKind,
    MemberState,
)
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Record
from headwater.schemas.topics import (
    CAST_AVAILABILITY,
    CAST_EVENTS,
    CAST_MANIFESTS,
    CAST_MEMBERS,
    CAST_PROGRESS,
    CAST_RACKS,
    Topic,
)

TOPICS = (CAST_AVAILABILITY, CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_RACKS)
MIB = 1024 * 1024


@dataclass
class Peer:
    """One host of the script, as it stands in the log."""

    host: str
    rack: str
    incarnation: int = 1
    number: int = -1
    sequence: int = 0
    before: Bits | None = None


@dataclass
class CastLog:
    """The topics of casts, under a prefix of their own."""

    kafka: Kafka
    hashes: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._producer = self.kafka.producer()

    def join(self, *peers: Peer) -> None:
        """Each gets the number that the log gave it."""
        for peer in peers:
            self.member(peer, MemberState.joined, lambda _, sent, peer=peer: setattr(peer, "number", sent.offset()))
        self.flush()

    def member(self, peer: Peer, state: MemberState, delivered: Callable[..., None] | None = None) -> None:
        record = CastMember(
            host=peer.host, incarnation=peer.incarnation, rack=peer.rack, address="127.0.0.1:1", state=state,
            said_by=peer.host, reason="", at_us=time.time_ns() // 1_000,
        )  # fmt: skip
        self._produce(CAST_MEMBERS, record, partition_of(peer.rack.encode(), 64), delivered)

    def announce(self, name: str, epoch: int, chunks: Chunks, **fields: Any) -> bytes:
        """Announced, hashed and sealed; returns the root."""
        hashes = b"".join(blake3(f"{epoch}/{chunk}".encode()).digest() for chunk in range(chunks.count))
        root = root_of(chunks, hashes)
        said = {
            "file_name": f"{name}.bin", "size": chunks.size, "chunk_bytes": chunks.chunk_bytes, "mtime_ns": 1,
            "origin": "origin", "expires_us": time.time_ns() // 1_000 + 3_600_000_000,
        }  # fmt: skip
        self.manifest(name, epoch, ManifestKind.announced, **(said | fields))
        if hashes:
            self.manifest(name, epoch, ManifestKind.hashes, first_chunk=0, hashes=hashes)
        self.manifest(name, epoch, ManifestKind.sealed, root=root)
        self.flush()
        return root

    def manifest(self, name: str, epoch: int, kind: ManifestKind, **fields: Any) -> None:
        reason = fields.pop("reason", "")
        self._produce(CAST_MANIFESTS, CastManifest(name=name, epoch=epoch, kind=kind, reason=reason, **fields))

    def have(self, peer: Peer, epoch: int, bits: Bits, rate: int = 0) -> None:
        """Say what it has: all of it each tenth time, else what came since."""
        full = peer.before is None or peer.sequence % 10 == 0
        came = bits if peer.before is None or full else bits & ~peer.before
        record = CastAvailability(
            epoch=epoch, number=peer.number, incarnation=peer.incarnation, sequence=peer.sequence,
            base=None if full else peer.sequence - 1, bits=pack(came), chunks=int(bits.sum()), bytes_per_second=rate,
        )  # fmt: skip
        peer.sequence, peer.before = peer.sequence + 1, bits.copy()
        self._produce(CAST_AVAILABILITY, record, partition_of(peer.rack.encode(), 64))

    def step(self, peer: Peer, epoch: int, name: str, state: CastState, **fields: Any) -> None:
        said = {"chunks": 0, "received_bytes": 0, "outside_bytes": 0, "seconds": 0.0, "reason": "", "root": None}
        record = CastProgress(
            epoch=epoch, name=name, host=peer.host, incarnation=peer.incarnation, rack=peer.rack, state=state,
            at_us=time.time_ns() // 1_000, **(said | fields),
        )  # fmt: skip
        self._produce(CAST_PROGRESS, record)

    def event(self, peer: Peer, epoch: int, kind: CastEventKind, about: Peer, reason: str) -> None:
        record = CastEvent(
            epoch=epoch, host=peer.host, incarnation=peer.incarnation, kind=kind, about_host=about.host,
            about_incarnation=about.incarnation, reason=reason, at_us=time.time_ns() // 1_000,
        )  # fmt: skip
        self._produce(CAST_EVENTS, record)

    def garbage(self, topic: Topic, partition: int, key: bytes) -> None:
        self._producer.produce(self.kafka.physical(topic), b"garbage", key, partition)
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def racks(self) -> list[CastRack]:
        """All summaries so far, oldest first."""
        places = offsets.partitions(self.kafka, CAST_RACKS.name)
        found = [decode(message.value()) for message in messages(self.kafka, offsets.beginnings(self.kafka, places))]
        return [record for record in found if isinstance(record, CastRack)]

    def newest(self) -> dict[tuple[int, str], CastRack]:
        return {(rack.epoch, rack.rack): rack for rack in self.racks()}

    def _produce(
        self, topic: Topic, record: Record, partition: int = 0, delivered: Callable[..., None] | None = None
    ) -> None:
        self._producer.produce(
            self.kafka.physical(topic), encode(record), record.key(), partition, on_delivery=delivered
        )
