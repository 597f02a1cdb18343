from datetime import UTC, datetime
from uuid import uuid4

import pytest

from headwater.connectors.catalog import progress
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.catalog.progress import Amount


@pytest.fixture
def catalog(catalog_dsn):
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def add_source(transaction, name: str, silent_seconds: float, *, stopped: bool = False) -> None:
    transaction.execute(
        "INSERT INTO sources "
        "(source, site, root, dataset, epoch, index_id, agent, partitions, heartbeat_at, stopped_at) "
        "VALUES (%s, 'lab', '/p', 'main', 1, %s, 'host/1', 6, now() - make_interval(secs => %s), "
        "CASE WHEN %s THEN now() END)",
        [name, uuid4(), silent_seconds, stopped],
    )


def test_an_empty_catalog_has_no_progress(catalog):
    with catalog.transaction() as transaction:
        found = progress.progress(transaction)

    assert (found.sources, found.datasets) == ((), ())


def test_progress_is_what_the_counters_say(catalog):
    values = {
        "files": 10, "bytes": 1000, "objects_claimed": 8, "bytes_claimed": 800, "objects_stored": 6,
        "bytes_stored": 600, "objects_verified": 5, "bytes_verified": 500, "objects_condemned": 1,
        "weak_files": 4,
    }  # fmt: skip
    with catalog.transaction() as transaction:
        add_source(transaction, "clips", 0, stopped=True)
        add_source(transaction, "photos", 20)
        for name, value in values.items():
            transaction.execute("INSERT INTO counters VALUES ('photos', %s, %s)", [name, value])
        for number in range(3):
            transaction.execute(
                "INSERT INTO exceptions VALUES ('photos', %s, 1, %s, 'busy', %s)", [b"%d" % number, number, number < 2]
            )

        clips, photos = progress.progress(transaction).sources

    assert (clips.source, clips.silent_seconds, clips.found) == ("clips", None, Amount(0, 0))
    assert (photos.found, photos.claimed) == (Amount(10, 1000), Amount(8, 800))
    assert (photos.stored, photos.verified, photos.condemned) == (Amount(6, 600), Amount(5, 500), 1)
    assert (photos.exceptions, photos.weak, clips.weak) == (2, 4, 0)
    assert (photos.put_off, clips.put_off) == (None, None)
    assert 20 <= photos.silent_seconds < 60


def test_a_dataset_shows_its_newest_version_and_what_waits_for_the_next(catalog):
    published = datetime(2026, 11, 30, tzinfo=UTC)
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO datasets (dataset, repository, head, head_commit, files, content_bytes, uncommitted) "
            "VALUES ('main', 'main', 2, 'c2', 10, 1000, 7), ('new', 'new', 0, NULL, 0, 0, 3)"
        )
        transaction.execute(
            "INSERT INTO versions (dataset, version, epoch, state, cut, published_at) "
            "VALUES ('main', 1, 1, 'published', '{}', '2020-01-01'), ('main', 2, 1, 'published', '{}', %s)",
            [published],
        )

        main, new = progress.progress(transaction).datasets

    assert (main.version, main.commit_id, main.published_at) == (2, "c2", published)
    assert (main.files, main.bytes, main.uncommitted) == (10, 1000, 7)
    assert (new.version, new.commit_id, new.published_at, new.uncommitted) == (0, None, None, 3)
