"""Epochs of casts: the newest of a name wins, and what ended stays ended."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.casts import Cast
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.rules.errors import Fenced, NotFound
from headwater.schemas.cast_manifest import ManifestState

ROOT = bytes(range(32))


@pytest.fixture
def catalog(catalog_dsn: str) -> Iterator[Catalog]:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def announce(catalog: Catalog, name: str = "model", **changes: Any) -> Cast:
    given: dict[str, Any] = {
        "origin": "host-1",
        "file": b"/data/\xff.bin",
        "file_name": "model.bin",
        "size": 3,
        "chunk_bytes": 1 << 20,
        "targets": ("a", "rack:r1"),
        "expires_at": datetime.now(UTC) + timedelta(hours=1),
    }
    with catalog.transaction() as transaction:
        return casts.announce(transaction, name=name, **given | changes)


def find(catalog: Catalog, cast: Cast) -> Cast:
    with catalog.transaction() as transaction:
        return casts.by_epoch(transaction, cast.epoch)


def seal(catalog: Catalog, cast: Cast) -> None:
    with catalog.transaction() as transaction:
        casts.seal(transaction, cast.epoch, ROOT)


def end(catalog: Catalog, cast: Cast, state: ManifestState, reason: str = "why not") -> bool:
    with catalog.transaction() as transaction:
        return casts.end(transaction, cast.epoch, state, reason)


def test_epochs_grow_over_all_names(catalog: Catalog) -> None:
    epochs = [announce(catalog, name).epoch for name in ("model", "other", "model")]

    assert epochs == sorted(set(epochs))


def test_a_row_holds_what_was_announced(catalog: Catalog) -> None:
    cast = announce(catalog)

    assert (cast.file, cast.targets, cast.state, cast.lives) == (b"/data/\xff.bin", ["a", "rack:r1"], "announced", True)


def test_epochs_of_a_name_are_in_the_order_of_their_commits(catalog: Catalog) -> None:
    """Of those who announce at once, exactly the one with the largest epoch may seal."""
    with ThreadPoolExecutor(4) as pool:
        made = sorted(pool.map(lambda _: announce(catalog), range(8)), key=lambda cast: cast.epoch)

    seal(catalog, made[-1])
    assert [find(catalog, cast).state for cast in made] == ["aborted"] * 7 + ["sealed"]


def test_the_older_of_two_publishers_is_told_by_whom_it_was_replaced(catalog: Catalog) -> None:
    older = announce(catalog)
    newer = announce(catalog, origin="host-2")

    with pytest.raises(Fenced, match=f"host-2 announced cast {newer.epoch}"):
        seal(catalog, older)
    assert not find(catalog, older).lives


def test_a_newer_cast_leaves_a_sealed_one_sealed_and_other_names_alone(catalog: Catalog) -> None:
    sealed, other = announce(catalog), announce(catalog, "other")
    seal(catalog, sealed)
    announce(catalog)

    assert find(catalog, sealed).state == "sealed"
    assert not find(catalog, sealed).lives
    assert find(catalog, other).lives


def test_what_ended_is_not_sealed(catalog: Catalog) -> None:
    cast = announce(catalog)
    assert end(catalog, cast, ManifestState.aborted, "the disk is on fire")

    with pytest.raises(Fenced, match="the disk is on fire"):
        seal(catalog, cast)


def test_ends_only_go_forward(catalog: Catalog) -> None:
    cast = announce(catalog)

    assert end(catalog, cast, ManifestState.removed)
    assert not end(catalog, cast, ManifestState.removed)
    assert not end(catalog, cast, ManifestState.aborted)
    assert find(catalog, cast).state == "removed"


def test_an_end_is_untold_until_the_log_has_it(catalog: Catalog) -> None:
    older = announce(catalog)
    newer = announce(catalog, origin="host-2")
    with catalog.transaction() as transaction:
        assert [one.epoch for one in casts.untold(transaction, "model", "host-2")] == [older.epoch]
        assert [one.epoch for one in casts.untold(transaction, "unnamed", "host-1")] == [older.epoch]
        assert casts.untold(transaction, "unnamed", "host-2") == []
        casts.told(transaction, older.epoch, ManifestState.sealed)  # of another state: nothing
        assert len(casts.untold(transaction, "model", "host-2")) == 1
        casts.told(transaction, older.epoch, ManifestState.aborted)
        assert casts.untold(transaction, "model", "host-2") == []
    assert newer.lives


def test_copies_are_spare_once_nobody_may_need_them(catalog: Catalog) -> None:
    used, ended, replaced = announce(catalog, "used"), announce(catalog, "ended"), announce(catalog, "replaced")
    expired = announce(catalog, "expired", expires_at=datetime.now(UTC))
    announce(catalog, "without")
    with catalog.transaction() as transaction:
        for cast in (used, ended, replaced, expired):
            casts.keep_copy(transaction, cast.epoch, f"casts/{cast.epoch}")
            casts.seal(transaction, cast.epoch, ROOT)
    end(catalog, ended, ManifestState.aborted)
    newer = announce(catalog, "replaced")

    def spare() -> list[int]:
        with catalog.transaction() as transaction:
            return [one.epoch for one in casts.spare_copies(transaction)]

    assert spare() == [ended.epoch, expired.epoch], "the newer one is not whole yet"
    seal(catalog, newer)
    assert spare() == [ended.epoch, replaced.epoch, expired.epoch]


def test_casts_are_found_by_name_newest_first(catalog: Catalog) -> None:
    first, second = announce(catalog), announce(catalog)
    other = announce(catalog, "other")
    with catalog.transaction() as transaction:
        assert [one.epoch for one in casts.of_name(transaction, "model")] == [second.epoch, first.epoch]
        assert [one.epoch for one in casts.all_casts(transaction, 2)] == [other.epoch, second.epoch]
        with pytest.raises(NotFound, match="no cast named 'modle'"):
            casts.of_name(transaction, "modle")
        with pytest.raises(NotFound):
            casts.by_epoch(transaction, 10**9)
