"""A caster on a real broker and a real catalog, and a plain reader of what it said."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.casts import Cast
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.order import Order
from headwater.producers.caster.source import Source
from headwater.rules.cast.chunks import MIB
from headwater.schemas.cast_manifest import Manifest, announced
from headwater.schemas.cast_records import CastManifest
from headwater.schemas.topics import CAST_MANIFESTS
from headwater.stack.postgres import create_database, database_address


class World:
    """``name`` is the test's own; ``order`` what it orders unless it says otherwise."""

    def __init__(self, kafka: Kafka, dsn: str, folder: Path) -> None:
        self.kafka = kafka
        self.dsn = dsn
        self.catalog = Catalog(CatalogConfig(dsn))
        self.folder = folder
        self.config = CasterConfig(hash_threads=2)
        self.order = Order(
            name=f"c{uuid.uuid4().hex[:8]}",
            file_name="model.bin",
            targets=(),
            origin=f"host-{uuid.uuid4().hex[:8]}",
            expires_seconds=3600,
            chunk_bytes=MIB,
        )

    def file(self, size: int, name: str = "source.bin") -> Path:
        path = self.folder / name
        path.write_bytes(content(size))
        return path

    @contextmanager
    def caster(self, path: Path, **changes: Any) -> Iterator[Caster]:
        with Source(path) as source:
            yield Caster(self.config, self.kafka, self.catalog, source, replace(self.order, **changes))

    def cast(self, path: Path, **changes: Any) -> Caster:
        """A cast from beginning to end."""
        with self.caster(path, **changes) as caster:
            caster.announce()
            caster.run()
        return caster

    def row(self, epoch: int) -> Cast:
        with self.catalog.transaction() as transaction:
            return casts.by_epoch(transaction, epoch)

    def rows(self) -> list[Cast]:
        with self.catalog.transaction() as transaction:
            return casts.of_name(transaction, self.order.name)

    def records(self, epoch: int) -> list[CastManifest]:
        seen = browse(self.kafka, CAST_MANIFESTS.name, Start("beginning"))
        return [one.record for one in seen if isinstance(one.record, CastManifest) and one.record.epoch == epoch]

    def manifest(self, epoch: int) -> Manifest:
        first, *others = self.records(epoch)
        manifest = announced(first)
        for record in others:
            manifest = manifest.after(record)
        return manifest


def content(size: int) -> bytes:
    """Bytes in which no two MiB are equal."""
    return b"".join(number.to_bytes(8, "little") for number in range(-(-size // 8)))[:size]


@pytest.fixture(scope="module")
def kafka(stack: Any) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}."))
    apply(kafka, (CAST_MANIFESTS,))
    return kafka


@pytest.fixture(scope="module")
def dsn(stack: Any) -> str:
    """One catalog for all tests of the module, as there is one log: an epoch belongs to one cast."""
    name = f"t{uuid.uuid4().hex[:12]}"
    create_database(stack.postgres, name)
    return database_address(stack.postgres, name)


@pytest.fixture
def make_world(dsn: str, tmp_path: Path) -> Iterator[Callable[[Kafka], World]]:
    made: list[World] = []

    def make(kafka: Kafka) -> World:
        made.append(World(kafka, dsn, tmp_path))
        made[-1].catalog.migrate()
        return made[-1]

    yield make
    for world in made:
        world.catalog.close()


@pytest.fixture
def world(make_world: Callable[[Kafka], World], kafka: Kafka) -> World:
    return make_world(kafka)
