"""The copy in S3: the cast's bytes or nothing, and nothing left of it when nobody needs it."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.producers.caster.copy import Copy, Parts, drop_copies
from headwater.producers.caster.source import Source
from headwater.rules.cast.chunks import MIB, Chunks
from headwater.rules.errors import Torn
from headwater.schemas.cast_manifest import ManifestState

pytestmark = pytest.mark.stack


@pytest.fixture
def store(bucket: str) -> ObjectStore:
    return ObjectStore(S3Config.from_url(bucket))


def copy_of(world: Any, store: ObjectStore, path: Path, source: Source) -> Copy:
    caster = world.cast(path)
    return Copy(world.config, world.kafka, world.catalog, store, source, caster.cast, caster.hashes)


def epoch_of(world: Any) -> int:
    return int(world.rows()[0].epoch)


@pytest.mark.parametrize("size", [1, 8 * MIB, 17 * MIB + 5])
def test_the_copy_is_the_file_and_the_log_says_where(world: Any, store: ObjectStore, size: int) -> None:
    path = world.file(size)
    with Source(path) as source:
        copy_of(world, store, path, source).run()

    url = world.manifest(epoch_of(world)).url
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert hashlib.sha256(answer.read()).digest() == hashlib.sha256(path.read_bytes()).digest()
    assert world.rows()[0].copy_key == f"casts/{epoch_of(world)}"


def test_an_empty_file_needs_no_copy(world: Any, store: ObjectStore) -> None:
    path = world.file(0)
    with Source(path) as source:
        copy_of(world, store, path, source).run()
    assert (world.manifest(epoch_of(world)).url, world.rows()[0].copy_key) == (None, None)


def test_changed_bytes_are_never_a_copy(world: Any, store: ObjectStore) -> None:
    path = world.file(17 * MIB)
    with Source(path) as source:
        copy = copy_of(world, store, path, source)
        with path.open("r+b") as file:
            file.seek(16 * MIB)
            file.write(b"y")
        with pytest.raises(Torn, match="in chunk 16"):
            copy.run()
    assert store.head(f"casts/{epoch_of(world)}") is None
    assert world.manifest(epoch_of(world)).url is None

    assert drop_copies(store, world.catalog, world.rows()) == 1
    assert store.list_multiparts("casts/") == []


def test_a_cut_off_source_is_no_copy(world: Any, store: ObjectStore) -> None:
    path = world.file(2 * MIB)
    with Source(path) as source:
        copy = copy_of(world, store, path, source)
        os.truncate(path, MIB + 5)
        with pytest.raises(Torn):
            copy.run()


def test_a_cast_that_ended_while_it_was_copied_keeps_no_copy(world: Any, store: ObjectStore) -> None:
    path = world.file(MIB)
    with Source(path) as source:
        copy = copy_of(world, store, path, source)
        with world.catalog.transaction() as transaction:
            casts.end(transaction, epoch_of(world), ManifestState.removed, "not wanted")
        copy.run()
    assert store.head(f"casts/{epoch_of(world)}") is None
    assert world.rows()[0].copy_key is None
    assert world.manifest(epoch_of(world)).url is None


def test_copies_are_dropped_with_what_was_begun_of_them(world: Any, store: ObjectStore) -> None:
    path = world.file(MIB)
    with Source(path) as source:
        copy_of(world, store, path, source).run()
    key = f"casts/{epoch_of(world)}"
    store.create_multipart(key)

    assert drop_copies(store, world.catalog, world.rows()) == 1
    assert (store.head(key), store.find_multiparts(key)) == (None, [])
    assert drop_copies(store, world.catalog, world.rows()) == 0


def test_an_address_for_longer_than_s3_allows_says_so(world: Any, store: ObjectStore) -> None:
    path = world.file(1)
    world.order = type(world.order)(
        name=world.order.name, file_name="f", targets=(), origin="h",
        expires_seconds=timedelta(days=30).total_seconds(),
    )  # fmt: skip
    with Source(path) as source:
        copy_of(world, store, path, source).run()
    assert "for 7 days" in world.records(epoch_of(world))[-1].reason


@pytest.mark.parametrize(
    ("size", "chunk_bytes", "each"),
    [(1, MIB, 8), (10**11, 16 * MIB, 1), (65_536 * 64 * MIB, 64 * MIB, 7), (65_536 * MIB, MIB, 8)],
)  # fmt: skip
def test_parts_are_what_s3_takes_and_cover_every_chunk_once(size: int, chunk_bytes: int, each: int) -> None:
    parts = Parts.of(Chunks(size, chunk_bytes))

    assert parts.chunks_each == each
    assert len(parts.numbers) <= 10_000
    assert parts.part_bytes >= 5 * MIB
    assert [chunk for number in parts.numbers for chunk in parts.chunks_of(number)] == list(range(parts.chunks.count))
