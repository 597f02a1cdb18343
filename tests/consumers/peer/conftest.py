"""A caster for peers: it says on the log what a caster says, of bytes that a test chose."""

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from blake3 import blake3

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.peer import Peer
from headwater.rules.cast.chunks import Chunks, root_of
from headwater.schemas.cast_records import CastManifest, ManifestKind
from headwater.schemas.codec import decode, encode
from headwater.schemas.topics import CAST_MANIFESTS, catalogue

MIB = 1024 * 1024


@pytest.fixture
def kafka(stack, kafka_prefix):
    made = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(made, [topic for topic in catalogue(("lab",)) if topic.name.startswith("cast.")])
    return made


@pytest.fixture
def config():
    return PeerConfig(key="for tests only, of no use", listen="127.0.0.1", advertised="127.0.0.1", host="h0")


@dataclass
class Told:
    """A cast as it is told: of ``path``, in chunks of 1 MiB."""

    kafka: Kafka
    path: Path
    name: str
    epoch: int
    content: bytes = field(init=False)

    def __post_init__(self):
        self.content = self.path.read_bytes()
        self.chunks = Chunks(len(self.content), MIB)
        pieces = [self.content[at : at + MIB] for at in range(0, len(self.content), MIB)]
        self.hashes = b"".join(blake3(piece).digest() for piece in pieces)
        self.root = root_of(self.chunks, self.hashes)
        self.producer = self.kafka.producer()

    @property
    def origin(self):
        return f"source/{self.epoch}"

    def say(self, kind, **more):
        record = CastManifest(name=self.name, epoch=self.epoch, kind=kind, **{"reason": "", **more})
        self.producer.produce(self.kafka.physical(CAST_MANIFESTS), key=record.key(), value=encode(record))
        assert self.producer.flush(10) == 0

    def announce(self, *, targets=(), seconds=300.0):
        self.say(
            ManifestKind.announced,
            file_name=self.path.name,
            size=len(self.content),
            chunk_bytes=MIB,
            mtime_ns=1,
            origin=self.origin,
            targets=targets,
            expires_us=int((time.time() + seconds) * 1e6),
        )

    def hash(self):
        if self.hashes:
            self.say(ManifestKind.hashes, first_chunk=0, hashes=self.hashes)

    def seal(self):
        self.say(ManifestKind.sealed, root=self.root)

    def all(self, **more):
        self.announce(**more)
        self.hash()
        self.seal()


@pytest.fixture
def told(kafka, tmp_path):
    def told(size=8 * MIB, name="weights", epoch=7):
        path = tmp_path / "source" / "model.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(size))
        return Told(kafka, path, name, epoch)

    return told


@pytest.fixture
def origin_of(kafka, config):
    """The origin of a cast, not started yet."""

    def origin_of(cast):
        seeds = {cast.epoch: SeedFile(cast.path, cast.chunks)}
        return Peer(replace(config, host=cast.origin), kafka, only=cast.name, seeds=seeds)

    return origin_of


@pytest.fixture
def peer_of(kafka, config, tmp_path):
    """A peer, not started yet, whose folder is named after it."""

    def peer_of(host, rack="r0", **more):
        own = {name: more.pop(name) for name in ("only",) if name in more}
        return Peer(replace(config, host=host, rack=rack, **more), kafka, into=tmp_path / host, **own)

    return peer_of


@pytest.fixture
def records(kafka):
    """What a topic holds now."""
    from headwater.connectors.kafka import offsets
    from headwater.connectors.kafka.reading import messages

    def records(topic):
        starts = offsets.beginnings(kafka, offsets.partitions(kafka, topic.name))
        return [decode(message.value()) for message in messages(kafka, starts)]

    return records
