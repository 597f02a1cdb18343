"""What a cast costs the broker: its records in their real encodings, as peers and the gossip write and read them.

Each peer writes its availability once a second, in full every tenth time and as a difference else, until it is
complete. The gossip answers with a summary of each rack. Peers read the availability of their own rack, all summaries,
all members and the manifests, by two consumers. Copies between brokers come on top: what is written, once per further
replica. So do TCP's headers, and acknowledgements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.connectors.kafka.partitioning import partition_of
from headwater.rules.cast.bitmap import pack
from headwater.rules.cast.chunks import HASH_BYTES
from headwater.schemas import codec
from headwater.schemas.cast_records import (
    CastAvailability,
    CastManifest,
    CastMember,
    CastRack,
    ManifestKind,
    MemberState,
)
from headwater.schemas.records import Record
from headwater.schemas.topics import CAST_AVAILABILITY, CAST_MANIFESTS, CAST_MEMBERS, CAST_RACKS
from headwater.simulator.outcome import Outcome
from headwater.simulator.scenario import Scenario

Have: TypeAlias = NDArray[np.bool_]
"""Which chunks (columns) each host (rows) has."""

FULL_EVERY = 10
HASHES_A_RECORD, HASHES_SECONDS = 64, 0.05
"""The caster writes hashes when it has so many, or after so long."""
BATCH_BYTES = 61
"""Around the records of one batch."""

_EPOCH, _INCARNATION = 10_000, 1_796_000_000_000_000_000
"""As long as real ones are."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """How one consumer of a peer fetches. Sizes of requests and answers were measured with librdkafka 2.16.

    It keeps no fetch sessions: each request and each answer names every partition.
    """

    topics: int
    partitions: int
    min_bytes: int
    wait_seconds: float

    @property
    def empty_bytes(self) -> int:
        """Of an answer without records."""
        return 21 + 18 * self.topics + 37 * self.partitions

    def per_second(self, records: float, read_bytes: float) -> float:
        """Fetches a second where so many records and bytes come for it each second, all at different times."""
        early = records if self.min_bytes <= 1 else read_bytes / self.min_bytes
        return max(1 / self.wait_seconds, early)


PROMPT = Fetching(topics=1, partitions=CAST_MANIFESTS.partitions, min_bytes=1, wait_seconds=0.5)
"""Manifests: read as soon as they are written."""
GATHERED = Fetching(topics=3, partitions=CAST_MEMBERS.partitions + 2, min_bytes=1_000_000, wait_seconds=0.5)
"""Members, summaries and the availability of the own rack: two fetches a second, however much is written."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic in one second: records and bytes that are written, bytes that peers and the gossip read."""

    topic: str
    records: float
    written_bytes: float
    read_bytes: float


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """In one second. ``fetch_bytes``: of the answers to fetches, beside the batches in them."""

    flows: tuple[Flow, ...]
    fetches: float
    fetch_bytes: float

    @property
    def read_bytes(self) -> float:
        return self.fetch_bytes + sum(flow.read_bytes for flow in self.flows)

    @property
    def written_bytes(self) -> float:
        return sum(flow.written_bytes for flow in self.flows)


def busiest(scenario: Scenario, outcome: Outcome) -> BrokerLoad:
    """The second in which most is read. Of the outcome it needs the samples of the first rack, which stands for all."""
    return max(by_second(scenario, outcome), key=lambda load: load.read_bytes)


def by_second(scenario: Scenario, outcome: Outcome) -> list[BrokerLoad]:
    """The load in each second of the cast."""
    count = scenario.chunks.count
    rack = np.unpackbits(outcome.samples[:, : rack_hosts(scenario)], axis=2, count=count).astype(np.bool_)
    found = []
    for second in range(len(rack)):
        before = rack[second - 1] if second else np.zeros_like(rack[0])
        said = availability(scenario, before, rack[second], second)
        gathered = (_availability_flow(scenario, said), _summaries_flow(scenario, rack[second]))
        hashes = _hashes_flow(scenario, second)
        read = sum(flow.read_bytes for flow in gathered) / scenario.hosts
        prompt, late = PROMPT.per_second(hashes.records, 0.0), GATHERED.per_second(0.0, read)
        found.append(
            BrokerLoad(
                flows=(*gathered, hashes),
                fetches=scenario.hosts * (prompt + late),
                fetch_bytes=scenario.hosts * (prompt * PROMPT.empty_bytes + late * GATHERED.empty_bytes),
            )
        )
    return found


def join_bytes(scenario: Scenario) -> int:
    """What is read when every host joins and reads that of every other: once, however long that takes."""
    joined = CastMember(
        host="host-0001.rack-01.example",
        incarnation=_INCARNATION,
        rack="rack-01",
        address="10.10.1.100:7400",
        state=MemberState.joined,
        said_by="host-0001.rack-01.example",
        reason="",
        at_us=_INCARNATION // 1000,
    )
    return batch_bytes([joined]) * scenario.hosts**2


def rack_hosts(scenario: Scenario) -> int:
    """Hosts of the first rack."""
    return int(np.count_nonzero(scenario.rack_of() == 0))


def batch_bytes(records: Sequence[Record]) -> int:
    """Bytes of one batch in Kafka's record format 2, neither compressed nor in a transaction."""
    found = BATCH_BYTES
    for offset, record in enumerate(records):
        key, value = record.key(), codec.encode(record)
        body = 1 + _varint(0) + _varint(offset) + _varint(len(key)) + len(key) + _varint(len(value)) + len(value)
        body += _varint(0)  # no headers
        found += _varint(body) + body
    return found


def _varint(number: int) -> int:
    """Bytes of a number that is not negative, as records have it: zigzag, seven bits a byte."""
    return max(1, -(-(2 * number).bit_length() // 7))


def availability(scenario: Scenario, before: Have, now: Have, second: int) -> list[CastAvailability]:
    """What the rack's hosts say in a second; who was complete before says nothing."""
    said = []
    for host in np.flatnonzero(~before.all(axis=1)):
        full = (second + int(host)) % FULL_EVERY == 0
        came = now[host] & ~before[host]
        said.append(
            CastAvailability(
                epoch=_EPOCH,
                number=_EPOCH + int(host),
                incarnation=_INCARNATION,
                sequence=second,
                base=None if full else second - 1,
                bits=pack(now[host] if full else came),
                chunks=int(np.count_nonzero(now[host])),
                bytes_per_second=int(np.count_nonzero(came)) * scenario.chunk_bytes,
            )
        )
    return said


def _availability_flow(scenario: Scenario, said: Sequence[CastAvailability]) -> Flow:
    """Of all racks, where each says as much as this one. Racks whose names share a partition read each other's too."""
    written = float(sum(batch_bytes([record]) for record in said))
    names = [f"rack-{rack:02}".encode() for rack in range(scenario.racks)]
    shared = np.bincount([partition_of(name, CAST_AVAILABILITY.partitions) for name in names])
    readers = float(np.sum(shared**2)) * rack_hosts(scenario)
    by_gossip = scenario.racks * written
    return Flow(
        CAST_AVAILABILITY.name, scenario.racks * len(said), scenario.racks * written, readers * written + by_gossip
    )


def _summaries_flow(scenario: Scenario, now: Have) -> Flow:
    """The gossip writes those of all racks in one batch, which every host reads."""
    counts = np.sort(np.count_nonzero(now, axis=1))
    summary = CastRack(
        epoch=_EPOCH,
        rack="rack-01",
        at_us=_INCARNATION // 1000,
        view=_EPOCH,
        hosts=len(now),
        complete=int(np.count_nonzero(counts == now.shape[1])),
        installed=0,
        least=int(counts[0]),
        median=int(counts[len(counts) // 2]),
        most=int(counts[-1]),
        bits=pack(np.logical_or.reduce(now)),
        bytes_per_second=int(scenario.nic_bytes_per_second) * len(now),
    )
    written = batch_bytes([summary] * scenario.racks)
    return Flow(CAST_RACKS.name, scenario.racks, written, written * scenario.hosts)


def _hashes_flow(scenario: Scenario, second: int) -> Flow:
    """The manifest grows as fast as the origin hashes."""
    a_second = scenario.hash_bytes_per_second / scenario.chunk_bytes
    chunks = min(a_second, max(0.0, scenario.chunks.count - second * a_second))
    a_record = min(HASHES_A_RECORD, math.ceil(a_second * HASHES_SECONDS))
    record = CastManifest(
        name="a-name-of-a-file",
        epoch=_EPOCH,
        kind=ManifestKind.hashes,
        first_chunk=scenario.chunks.count,
        hashes=bytes(a_record * HASH_BYTES),
        reason="",
    )
    records = chunks / a_record
    written = records * batch_bytes([record])
    return Flow(CAST_MANIFESTS.name, records, written, written * scenario.hosts)
