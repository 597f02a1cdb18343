"""``headwater consent`` on the real catalog: it shows, asks, and records who consented to what."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig


@pytest.fixture
def catalog(catalog_dsn: str) -> Any:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def consented(catalog: Catalog) -> int | None:
    with catalog.transaction() as transaction:
        row = transaction.execute("SELECT consented FROM source_halts").fetchone()
        assert row is not None
        return row[0]


@pytest.mark.usefixtures("on_stack")
def test_deletes_go_only_with_yes_and_who_said_so_and_why_is_kept(command: Any, catalog: Catalog) -> None:
    assert "holds no deletes back" in command("consent", "films", "--reason", "old").err
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO source_halts (source, reason, paths, subtree, examples) VALUES "
            "('films', 'far too many are gone', 1234, 'raw/2019', ARRAY['raw/2019/a.mov'::bytea])"
        )
    looked = command("consent", "films", "--reason", "old", "--dry-run")
    assert looked.code == 0
    for said in ("far too many are gone", "1,234 paths", "below raw/2019/", "raw/2019/a.mov"):
        assert said in looked.out
    refused = command("consent", "films", "--reason", "old")
    assert refused.code == 77
    assert "--yes" in refused.err
    assert consented(catalog) is None

    done = command("consent", "films", "--reason", "shot twice", "--yes", "--json")
    assert (done.json["paths"], done.json["below"]) == (1234, "raw/2019")
    assert consented(catalog) == 1234
    [action] = command("group", "history", "--json").json
    assert (action["action"], action["subject"], action["reason"], action["done"]) == (
        "consent to deletes", "films", "shot twice", True,
    )  # fmt: skip
