"""What moves the heads of paths counts: files, bytes, and those that nothing proved quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headwater.connectors.catalog import files
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.schemas.records import ChangeKind, FileChange, FileType, Guarantee


@pytest.fixture
def catalog(catalog_dsn: str) -> Iterator[Catalog]:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def weak_after(catalog: Catalog, *changes: FileChange) -> int:
    """What the changes, each in a transaction of its own, add to the count of weak files."""
    gained = 0
    for change in changes:
        with catalog.transaction() as transaction:
            gained += files.move_heads(transaction, files.states_of(change))["photos", "weak_files"]
    return gained


def test_a_weak_file_counts_until_it_is_read_again_with_a_proof_or_is_gone(catalog: Catalog) -> None:
    weak = FileChange(
        source="photos", path=b"a", display="a", epoch=1, seq=1, kind=ChangeKind.created,
        file_type=FileType.regular, size=5, hash=b"h" * 32, guarantee=Guarantee.weak,
    )  # fmt: skip
    assert weak_after(catalog, weak, weak) == 1  # a replay moves nothing
    assert weak_after(catalog, replace(weak, seq=2, kind=ChangeKind.modified)) == 0
    assert weak_after(catalog, replace(weak, seq=3, path=b"b", kind=ChangeKind.renamed, from_path=b"a")) == 0
    assert weak_after(catalog, replace(weak, seq=4, path=b"b", guarantee=Guarantee.strong)) == -1
    assert weak_after(catalog, replace(weak, seq=5)) == 1
    assert weak_after(catalog, replace(weak, seq=6, kind=ChangeKind.deleted, hash=None)) == -1
