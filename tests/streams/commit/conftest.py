"""A dataset on the real stack, filled as the uploaders and the verifier would fill it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headwater.connectors.catalog import files, versions
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.catalog.versions import Version
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply, describe
from headwater.connectors.lakefs.client import LakeFS
from headwater.connectors.lakefs.config import LakeFSConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.identity import content_hash, display, object_key
from headwater.schemas import codec
from headwater.schemas.records import ChangeKind, DatasetVersion, FileChange, FileType, Guarantee
from headwater.schemas.topics import DATASET_VERSIONS
from headwater.streams.commit.committer import Committer
from headwater.streams.commit.config import CommitConfig

PARTITIONS = 2


@dataclass(frozen=True)
class Addresses:
    """What a child process needs to run a committer of this dataset."""

    dsn: str
    bucket: str
    lakefs: str
    kafka: str
    prefix: str
    dataset: str


class World:
    """One dataset with one source, ``films``. ``tree`` is what its newest recorded states are: the model."""

    def __init__(self, addresses: Addresses, objects: ObjectStore) -> None:
        self.addresses = addresses
        self.dataset = addresses.dataset
        self.catalog = Catalog(CatalogConfig(addresses.dsn))
        self.catalog.migrate()
        self.objects = objects
        self.lakefs = LakeFS(LakeFSConfig.from_url(addresses.lakefs))
        self.kafka = Kafka(KafkaConfig(addresses.kafka, prefix=addresses.prefix))
        apply(self.kafka, [DATASET_VERSIONS])
        deadline = time.monotonic() + 30
        while not describe(self.kafka, [DATASET_VERSIONS]) and time.monotonic() < deadline:
            time.sleep(0.05)  # a busy broker learns of its own topics late
        self.seq = 0
        self.tree: dict[bytes, bytes] = {}
        self._running: tuple[Committer, threading.Thread, list[BaseException]] | None = None
        self.add_source("films")

    def add_source(self, source: str, epoch: int = 1) -> None:
        with self.catalog.transaction() as transaction:
            transaction.execute(
                "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions) "
                "VALUES (%s, 'here', '/nowhere', %s, %s, %s, 'test', %s)",
                [source, self.dataset, epoch, uuid4(), PARTITIONS],
            )

    # What happens in the folder

    def write(self, path: bytes, data: bytes, *, verified: bool = True, **described: object) -> FileChange:
        content = content_hash(data)
        self.objects.put(object_key(content, 1), data)
        change = self.record(
            path, ChangeKind.modified, hash=content, size=len(data), file_type=FileType.regular, **described
        )
        self.object_row(content, len(data), "verified" if verified else "stored")
        self.tree[path] = data
        return change

    def record_again(self, path: bytes, **described: object) -> FileChange:
        data = self.tree[path]
        return self.record(
            path,
            ChangeKind.modified,
            hash=content_hash(data),
            size=len(data),
            file_type=FileType.regular,
            **described,
        )

    def link(self, path: bytes, target: bytes) -> FileChange:
        return self.record(path, ChangeKind.created, file_type=FileType.symlink, link_target=target, mode=0o777)

    def delete(self, path: bytes) -> FileChange:
        self.tree.pop(path, None)
        return self.record(path, ChangeKind.deleted)

    def rename(self, old: bytes, new: bytes) -> FileChange:
        data = self.tree.pop(old)
        self.tree[new] = data
        return self.record(
            new,
            ChangeKind.renamed,
            hash=content_hash(data),
            size=len(data),
            file_type=FileType.regular,
            from_path=old,
        )

    def record(self, path: bytes, kind: ChangeKind, *, source: str = "films", **described: object) -> FileChange:
        self.seq += 1
        known: dict[str, object] = {"mtime_ns": self.seq * 1_000_000_007, "mode": 0o644, "guarantee": Guarantee.strong}
        change = FileChange(
            source=source,
            path=path,
            display=display(path),
            epoch=1,
            seq=self.seq,
            kind=kind,
            **(known | described),  # type: ignore[arg-type]
        )
        self.apply(change)
        return change

    def apply(self, change: FileChange) -> None:
        with self.catalog.transaction() as transaction:
            states = files.states_of(change)
            files.add_states(transaction, states)
            files.move_heads(transaction, states)
            files.count_uncommitted(transaction, {change.source: len(states)})

    def object_row(self, content: bytes, size: int, state: str, generation: int = 1) -> None:
        with self.catalog.transaction() as transaction:
            transaction.execute(
                "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, "
                "claim_epoch) VALUES (%s, %s, %s, %s, 'films', 't', 0, 1) "
                "ON CONFLICT (hash, generation) DO UPDATE SET state = excluded.state",
                [content, generation, state, size],
            )

    def verified(self, data: bytes) -> None:
        self.object_row(content_hash(data), len(data), "verified")

    def except_path(self, path: bytes, reason: str) -> None:
        self.seq += 1
        with self.catalog.transaction() as transaction:
            files.note_exceptions(transaction, [files.PathException("films", path, 1, self.seq, reason, True)])

    def checkpoint(self) -> None:
        """The agent says, and all partitions applied, that everything so far is recorded."""
        with self.catalog.transaction() as transaction:
            files.apply_checkpoints(transaction, [("films", number, 1, self.seq) for number in range(PARTITIONS)])

    # Versions

    def committer(self, **config: object) -> Committer:
        settings = CommitConfig(self.dataset, poll_seconds=0.02, retry_seconds=0.05, retry_most_seconds=0.5)
        return Committer(
            replace(settings, **config),  # type: ignore[arg-type]
            catalog=self.catalog,
            objects=self.objects,
            lakefs=self.lakefs,
            kafka=self.kafka,
        )

    def start(self, **config: object) -> Committer:
        committer = self.committer(**config)
        errors: list[BaseException] = []

        def run() -> None:
            try:
                committer.run()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="committer", daemon=True)
        thread.start()
        self._running = (committer, thread, errors)
        return committer

    def stop(self) -> list[BaseException]:
        """Stop the running committer; what ended it by itself, if anything did."""
        if self._running is None:
            return []
        committer, thread, errors = self._running
        self._running = None
        committer.stop()
        thread.join(60)
        assert not thread.is_alive()
        return errors

    def wait_for_end(self) -> BaseException:
        """What ends the running committer."""
        assert self._running is not None
        _, thread, errors = self._running
        thread.join(30)
        assert not thread.is_alive()
        self._running = None
        return errors[0]

    def commit(self, message: str = "") -> Version | None:
        """Run a committer for one requested version: what it made, None if nothing had changed."""
        with self.catalog.transaction() as transaction:
            request = versions.request_commit(transaction, self.dataset, message)
        self.start()
        answered = self.answer(request)
        assert not self.stop()  # returns when what follows the version is done too
        return answered

    def answer(self, request: int) -> Version | None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._running is not None
            assert not self._running[2], self._running[2]
            with self.catalog.transaction() as transaction:
                is_answered, number = versions.answer(transaction, request)
                if is_answered:
                    return versions.by_number(transaction, self.dataset, number) if number else None
            time.sleep(0.01)
        pytest.fail("the commit request was not answered")

    def changes(self, version: int) -> dict[bytes, str]:
        """The frozen delta of a version: what it does to each path."""
        with self.catalog.transaction() as transaction:
            return {row.path: row.change.value for row in versions.changes(transaction, self.dataset, version)}

    # What others see

    def listing(self, ref: str) -> dict[str, tuple[str, int]]:
        """Path to (checksum, size), as lakeFS lists it."""
        return {entry.path: (entry.checksum, entry.size) for entry in self.lakefs.list_objects(self.dataset, ref)}

    def expected_listing(self, source: str = "films") -> dict[str, tuple[str, int]]:
        """The tree as lakeFS should list it. For paths whose names lakeFS can hold."""
        return {f"{source}/{path.decode()}": (content_hash(data).hex(), len(data)) for path, data in self.tree.items()}

    def announced(self) -> list[DatasetVersion]:
        """Every committed record on dataset.versions, as any consumer reads it."""
        consumer = self.kafka.consumer(f"reader-{uuid4().hex}", enable_partition_eof=True, fetch_wait_max_ms=20)
        found: list[DatasetVersion] = []
        try:
            consumer.assign([TopicPartition(self.kafka.physical(DATASET_VERSIONS), 0, 0)])
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is None:
                    continue
                if error := message.error():
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                record = codec.decode(message.value())
                assert isinstance(record, DatasetVersion)
                found.append(record)
            pytest.fail("the topic has no end")
        finally:
            consumer.close()


@pytest.fixture(scope="session")
def shared_objects(stack: Any) -> tuple[str, ObjectStore]:
    """One bucket for all datasets of the session, as in production: (its address, its store)."""
    address = urlunsplit(urlsplit(stack.s3)._replace(path=f"/t{uuid4().hex[:12]}"))
    objects = ObjectStore(S3Config.from_url(address))
    objects.ensure_bucket()
    return address, objects


@pytest.fixture
def addresses(
    catalog_dsn: str, shared_objects: tuple[str, ObjectStore], lakefs_url: str, stack: Any, kafka_prefix: str
) -> Addresses:
    bucket, _ = shared_objects
    return Addresses(catalog_dsn, bucket, lakefs_url, stack.kafka, kafka_prefix, f"d{uuid4().hex[:12]}")


@pytest.fixture
def world(addresses: Addresses, shared_objects: tuple[str, ObjectStore]) -> Iterator[World]:
    made = World(addresses, shared_objects[1])
    yield made
    errors = made.stop()
    made.catalog.close()
    assert not errors
