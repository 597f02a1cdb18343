"""A publication from its announcement to its end, with hosts that say on the log what peers would say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from headwater.cli.cast.audience import complete, installed, missing
from headwater.cli.cast.publication import Ending, Publication
from headwater.connectors.catalog import casts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.cast_log import CastLog
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.producers.caster import telling
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.copy import Copy
from headwater.producers.caster.order import Order
from headwater.producers.caster.source import Source
from headwater.rules.errors import Fenced, Refused, Torn, Unavailable, Unclear
from headwater.schemas import codec
from headwater.schemas.cast_records import CastMember, CastProgress, CastState, MemberState
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_RACKS, Topic

pytestmark = pytest.mark.stack


class World:
    def __init__(self, kafka: Kafka, catalog: Catalog, store: ObjectStore, path: Any) -> None:
        self.kafka, self.catalog, self.store, self.path = kafka, catalog, store, path
        self.config = CasterConfig(linger_seconds=0.3)
        self.order = Order(name="model", file_name="m.bin", targets=("a",), origin="h", expires_seconds=3600)
        self.failure: Exception | None = None
        self.ending: Ending | None = None
        self.error: BaseException | None = None
        self.complete, self.missing = False, set[str]()

    @contextmanager
    def publishing(self, *, copy: bool = False, **order: Any) -> Iterator[Publication]:
        """One in a thread; at the block's end it has ended, by ``ending`` or by ``error``."""
        with Source(self.path) as source:
            caster = Caster(self.config, self.kafka, self.catalog, source, replace(self.order, **order))
            reader = CastLog(self.kafka, str(caster.announce().epoch))

            def make_copy() -> Copy:
                return Copy(self.config, self.kafka, self.catalog, self.store, source, caster.cast, caster.hashes)

            made = Publication(self.config, source, caster, reader, make_copy if copy else None, lambda: self.failure)
            thread = Thread(target=self._run, args=(made,))
            thread.start()
            try:
                yield made
            finally:
                thread.join(90)
                if thread.is_alive():
                    made.interrupt()
                    thread.join(90)
                    pytest.fail("the publication does not end")
                reader.close()

    def _run(self, made: Publication) -> None:
        try:
            self.ending = made.run(lambda: self._look(made))
        except BaseException as error:
            self.error = error

    def _look(self, made: Publication) -> None:
        """In the publication's own thread, which alone reads its history."""
        self.complete, self.missing = complete(made.history), missing(made.history)

    def say(self, topic: Topic, record: Any) -> None:
        producer = self.kafka.producer()
        producer.produce(self.kafka.physical(topic), key=record.key(), value=codec.encode(record))
        assert producer.flush(30) == 0

    def join(self, host: str) -> None:
        self.say(
            CAST_MEMBERS,
            CastMember(
                host=host, incarnation=1, rack="r", address="", state=MemberState.joined, said_by=host, reason="",
                at_us=0,
            ),
        )  # fmt: skip

    def install(self, publication: Publication, host: str) -> None:
        self.say(
            CAST_PROGRESS,
            CastProgress(
                epoch=publication.cast.epoch, name="model", host=host, incarnation=1, rack="r",
                state=CastState.installed, chunks=1, received_bytes=1, outside_bytes=0, seconds=1.0, reason="", at_us=0,
            ),
        )  # fmt: skip

    def row(self, publication: Publication) -> casts.Cast:
        with self.catalog.transaction() as transaction:
            return casts.by_epoch(transaction, publication.cast.epoch)


@pytest.fixture
def world(stack: Any, kafka_prefix: str, catalog_dsn: str, bucket: str, tmp_path: Any) -> Iterator[World]:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, (CAST_MANIFESTS, CAST_PROGRESS, CAST_RACKS, CAST_EVENTS, replace(CAST_MEMBERS, partitions=2)))
    path = tmp_path / "m.bin"
    path.write_bytes(b"weights" * 1000)
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield World(kafka, catalog, ObjectStore(S3Config.from_url(bucket)), path)


def sealed(publication: Publication, eventually: Callable[..., Any]) -> None:
    eventually(lambda: publication.root is not None, 60)


def test_it_ends_when_every_named_host_has_it(world: World, eventually: Any) -> None:
    with world.publishing() as publication:
        sealed(publication, eventually)
        world.install(publication, "a")
    assert (world.ending, missing(publication.history)) == (Ending.complete, set())


def test_without_targets_it_lingers_for_those_who_join_just_then(world: World, eventually: Any) -> None:
    world.config = replace(world.config, linger_seconds=3.0)
    with world.publishing(targets=()) as publication:
        world.join("a")
        world.install(publication, "a")
        eventually(lambda: world.complete, 60)
        world.join("b")
        eventually(lambda: world.missing == {"b"}, 60)
        world.install(publication, "b")
    assert world.ending is Ending.complete
    assert installed(publication.history).keys() == {"a", "b"}


def test_it_waits_for_its_copy(world: World) -> None:
    with world.publishing(copy=True) as publication:
        world.install(publication, "a")
    assert (world.ending, publication.copied) == (Ending.complete, True)
    assert world.store.get(f"casts/{publication.cast.epoch}") == world.path.read_bytes()


def test_a_copy_that_fails_ends_nothing(world: World) -> None:
    world.store = ObjectStore(replace(world.store.config, secret_access_key="wrong"))
    with world.publishing(copy=True) as publication:
        world.install(publication, "a")
    assert (world.ending, publication.copied) == (Ending.complete, False)


def test_it_ends_when_the_cast_expires_and_names_who_lacks_it(world: World) -> None:
    with world.publishing(targets=("a", "b"), expires_seconds=2) as publication:
        world.install(publication, "b")
    assert (world.ending, missing(publication.history)) == (Ending.expired, {"a"})


def test_interrupted_after_the_seal_the_cast_goes_on(world: World, eventually: Any) -> None:
    with world.publishing() as publication:
        sealed(publication, eventually)
        publication.interrupt()
    assert (world.ending, world.row(publication).state) == (Ending.interrupted, "sealed")


def test_interrupted_before_the_seal_the_cast_is_aborted(world: World, monkeypatch: Any) -> None:
    stopped, stop, prove = Event(), Caster.stop, Caster.prove
    monkeypatch.setattr(Caster, "stop", lambda self, reason: (stop(self, reason), stopped.set()))
    monkeypatch.setattr(Caster, "prove", lambda self: stopped.wait(60) and prove(self))
    with world.publishing() as publication:
        publication.interrupt()
    assert (world.ending, publication.root) == (Ending.interrupted, None)
    assert (world.row(publication).state, world.row(publication).reason) == (
        "aborted", "its publisher was interrupted",
    )  # fmt: skip


def test_a_newer_publisher_ends_the_older_one_whose_cast_is_sealed(world: World, eventually: Any) -> None:
    with world.publishing() as older:
        sealed(older, eventually)
        with Source(world.path) as source:
            Caster(world.config, world.kafka, world.catalog, source, replace(world.order, origin="k")).announce()
    assert isinstance(world.error, Fenced)
    assert world.error.happened == "cast 2 of the same name replaced it."


def test_an_operators_abort_ends_it(world: World, eventually: Any) -> None:
    with world.publishing() as publication:
        sealed(publication, eventually)
        telling.abort(world.kafka, world.catalog, "model", "ada", "wrong file")
    assert isinstance(world.error, Fenced)
    assert "wrong file" in world.error.happened


def test_a_source_that_changes_while_it_is_served_aborts_the_cast(world: World, eventually: Any) -> None:
    with world.publishing() as publication:
        sealed(publication, eventually)
        with world.path.open("ab") as file:
            file.write(b"more")
    assert isinstance(world.error, Torn)
    assert world.row(publication).state == "aborted"
    assert "grew" in world.row(publication).reason


def test_with_a_whole_copy_it_goes_on_without_its_source(world: World, eventually: Any) -> None:
    with world.publishing(copy=True) as publication:
        eventually(lambda: publication.copied, 60)
        world.path.unlink()
        world.install(publication, "a")
    assert world.ending is Ending.complete


def test_a_log_that_cannot_be_read_for_a_while_ends_nothing(world: World, monkeypatch: Any, eventually: Any) -> None:
    read, answers = CastLog.read, iter([Unavailable("no broker"), Unclear("an old leader")])

    def failing(self: CastLog, within_seconds: float) -> None:
        if (error := next(answers, None)) is not None:
            raise error
        read(self, within_seconds)

    monkeypatch.setattr(CastLog, "read", failing)
    with world.publishing() as publication:
        sealed(publication, eventually)
        world.install(publication, "a")
    assert (world.ending, publication.blind) == (Ending.complete, "")


def test_an_origin_that_dies_ends_it(world: World) -> None:
    with world.publishing():
        world.failure = Refused("the port is taken")
    assert world.error is world.failure
