"""Who owns a source, and what its owner learns from the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from headwater.connectors.catalog import sources
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.catalog.sources import Ownership
from headwater.rules.errors import Fenced, Refused
from headwater.schemas.records import FileType

FIRST, SECOND = uuid4(), uuid4()


@pytest.fixture
def catalog(catalog_dsn: str) -> Iterator[Catalog]:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def own(catalog: Catalog, index_id: UUID, **changes: Any) -> Ownership:
    given = {"site": "here", "root": b"/r", "dataset": "films", "index_seq": 0, "agent": "host/1", "partitions": 2}
    with catalog.transaction() as transaction:
        return sources.own(transaction, source="media", index_id=index_id, **{**given, **changes})


def run(catalog: Catalog, statement: bytes, *values: object) -> None:
    with catalog.transaction() as transaction:
        transaction.execute(statement, values)


def test_the_same_index_resumes_its_epoch_and_another_is_refused_while_the_owner_lives(catalog: Catalog) -> None:
    assert own(catalog, FIRST).epoch == 1
    assert own(catalog, FIRST) == Ownership("media", 1, FIRST, None)
    with pytest.raises(Refused, match="is alive"):
        own(catalog, SECOND)
    with pytest.raises(Refused, match="belongs to site"):
        own(catalog, FIRST, site="elsewhere")


def test_an_owner_that_lives_is_fenced_only_on_demand_and_the_refusal_says_how(catalog: Catalog) -> None:
    first = own(catalog, FIRST)
    with pytest.raises(Refused) as refused:
        own(catalog, SECOND)
    assert "--take-over" in refused.value.advice
    assert own(catalog, SECOND, take_over=True).epoch == 2
    with pytest.raises(Fenced), catalog.transaction() as transaction:
        sources.heartbeat(transaction, first)


def test_a_silent_or_stopped_owner_is_taken_over_and_then_fenced(catalog: Catalog) -> None:
    first = own(catalog, FIRST)
    run(catalog, b"UPDATE sources SET heartbeat_at = now() - interval '31 s'")
    second = own(catalog, SECOND)
    assert (second.epoch, second.taken_over) == (2, "host/1")
    with pytest.raises(Fenced), catalog.transaction() as transaction:
        sources.heartbeat(transaction, first)
    with pytest.raises(Fenced), catalog.transaction() as transaction:
        sources.goodbye(transaction, first)
    with catalog.transaction() as transaction:
        sources.goodbye(transaction, second)
    assert own(catalog, FIRST).epoch == 3


def test_a_heartbeat_keeps_the_source(catalog: Catalog) -> None:
    first = own(catalog, FIRST)
    run(catalog, b"UPDATE sources SET heartbeat_at = now() - interval '29 s'")
    with pytest.raises(Refused):
        own(catalog, SECOND)
    with catalog.transaction() as transaction:
        sources.heartbeat(transaction, first)
    with catalog.transaction() as transaction:
        (age,) = transaction.execute("SELECT now() - heartbeat_at FROM sources").fetchone() or (None,)
    assert age is not None
    assert age.total_seconds() < 20


def test_a_source_is_silent_since_its_last_heartbeat_and_not_after_a_goodbye(catalog: Catalog) -> None:
    ownership = own(catalog, FIRST)
    run(catalog, b"UPDATE sources SET heartbeat_at = now() - interval '90 s'")
    with catalog.transaction() as transaction:
        assert sources.silent_seconds(transaction, "films")["media"] == pytest.approx(90, abs=20)
        assert sources.silent_seconds(transaction, "other") == {}
        sources.goodbye(transaction, ownership)
        assert sources.silent_seconds(transaction, "films") == {"media": 0.0}


def test_an_index_behind_its_own_checkpoints_gets_a_new_epoch(catalog: Catalog) -> None:
    own(catalog, FIRST)
    run(catalog, b"INSERT INTO checkpoints VALUES ('media', 0, 1, 10)")
    assert own(catalog, FIRST, index_seq=10).epoch == 1
    assert own(catalog, FIRST, index_seq=9).epoch == 2


def test_complete_to_is_the_lowest_checkpoint_of_all_partitions_under_this_epoch(catalog: Catalog) -> None:
    first = own(catalog, FIRST)

    def complete_to() -> int:
        with catalog.transaction() as transaction:
            return sources.complete_to(transaction, first)

    assert complete_to() == 0
    run(catalog, b"INSERT INTO checkpoints VALUES ('media', 0, 1, 7), ('other', 1, 1, 3)")
    assert complete_to() == 0
    run(catalog, b"INSERT INTO checkpoints VALUES ('media', 1, 1, 5)")
    assert complete_to() == 5
    run(catalog, b"UPDATE checkpoints SET epoch = 0 WHERE partition = 1")
    assert complete_to() == 0


def test_a_wanted_generation_has_a_state_and_a_lost_one_has_none(catalog: Catalog) -> None:
    for hash, generation, state in (
        (b"a", 1, "condemned"),
        (b"a", 2, "verified"),
        (b"b", 1, "gone"),
        (b"c", 1, "stored"),
    ):
        run(
            catalog,
            b"INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, claim_epoch) "
            b"VALUES (%s, %s, %s, 1, 'media', '', 0, 0)",
            hash,
            generation,
            state,
        )
    with catalog.transaction() as transaction:
        assert sources.object_states(transaction, [b"a", b"b", b"c", b"d"]) == {b"a": "verified", b"c": "stored"}


def test_known_paths_are_the_newest_states_that_are_there_page_by_page(catalog: Catalog) -> None:
    rows = [(b"a", 1, "created"), (b"a", 2, "modified"), (b"b", 3, "deleted"), (b"c\xff", 4, "created")]
    for path, seq, kind in rows:
        run(
            catalog,
            b"INSERT INTO file_versions (source, path, epoch, seq, kind, file_type, hash, size, mtime_ns, mode, uid, "
            b"gid, guarantee) VALUES ('media', %s, 1, %s, %s, 'regular', %s, %s, 2, 3, 4, 5, 'strong')",
            path,
            seq,
            kind,
            None if kind == "deleted" else bytes([seq]) * 32,
            seq,
        )
    for path, seq in ((b"a", 2), (b"b", 3), (b"c\xff", 4)):
        run(catalog, b"INSERT INTO paths (source, path, epoch, seq) VALUES ('media', %s, 1, %s)", path, seq)
    with catalog.transaction() as transaction:
        (first,) = sources.known_paths(transaction, "media", b"", 1)
        (second,) = sources.known_paths(transaction, "media", first.path, 9)
    assert (first.path, first.size, first.hash, first.file_type) == (b"a", 2, b"\2" * 32, FileType.regular)
    assert (second.path, second.mtime_ns, second.strong) == (b"c\xff", 2, True)
    with catalog.transaction() as transaction:
        assert sources.known_paths(transaction, "media", second.path, 9) == []


def test_named_exceptions_are_the_active_ones(catalog: Catalog) -> None:
    for path, active in ((b"a", True), (b"b", False)):
        run(catalog, b"INSERT INTO exceptions VALUES ('media', %s, 1, 1, 'busy', %s)", path, active)
    with catalog.transaction() as transaction:
        assert sources.excepted_among(transaction, "media", [b"a", b"b", b"c"]) == {b"a"}
