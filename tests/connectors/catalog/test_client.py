"""The catalog client: migrations once, transactions whole, errors that say what to do and never show a password."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig, without_password
from headwater.rules.errors import NotFound, Refused, Unavailable

MIGRATIONS = [
    "0001-sync",
    "0002-operators",
    "0003-deferred",
    "0004-halts",
    "0005-weak",
    "0006-deferred-at",
    "0007-casts",
]


def test_many_processes_may_migrate_at_once_and_each_migration_runs_once(catalog_dsn: str) -> None:
    def migrate(_: int) -> list[str]:
        with Catalog(CatalogConfig(catalog_dsn)) as catalog:
            return catalog.migrate()

    with ThreadPoolExecutor(4) as pool:
        applied = [name for names in pool.map(migrate, range(4)) for name in names]

    assert sorted(applied) == MIGRATIONS
    with psycopg.connect(catalog_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM sources").fetchone() == (0,)
        assert connection.execute("SELECT name FROM migrations ORDER BY name").fetchall() == [
            (name,) for name in MIGRATIONS
        ]


def test_a_transaction_that_raises_leaves_nothing(catalog_dsn: str) -> None:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        with pytest.raises(ZeroDivisionError), catalog.transaction() as transaction:  # noqa: PT012
            transaction.execute("INSERT INTO partition_epochs VALUES ('t', 0, 1)")
            raise ZeroDivisionError
        with catalog.transaction() as transaction:
            assert transaction.execute("SELECT count(*) FROM partition_epochs").fetchone() == (0,)


def test_no_server_is_unavailable_and_names_the_setting() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: nobody answers there
        dsn = f"postgresql://hw:secret@127.0.0.1:{held.getsockname()[1]}/hw"
        with Catalog(CatalogConfig(dsn, connect_seconds=1)) as catalog, pytest.raises(Unavailable) as raised:
            catalog.migrate()
    assert "HEADWATER_POSTGRES" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_server_that_vanishes_without_a_word_is_noticed_within_a_minute_by_the_kernel(catalog_dsn: str) -> None:
    def seconds_to_notice(dsn: str) -> tuple[int, int]:
        with Catalog(CatalogConfig(dsn)) as catalog, catalog.transaction() as transaction:
            with socket.socket(fileno=transaction.fileno()) as ours:
                idle, interval, count, user = (
                    ours.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (
                        socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
                    )
                )  # fmt: skip
                alive = ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                ours.detach()
            assert alive
            return idle + interval * count, user // 1000

    waiting, sending = seconds_to_notice(catalog_dsn)
    assert 10 <= waiting <= 60
    assert 10 <= sending <= 60
    assert seconds_to_notice(catalog_dsn + "?keepalives_idle=300&tcp_user_timeout=400000") == (320, 400)


def test_a_wrong_password_is_refused_at_once(catalog_dsn: str) -> None:
    wrong = psycopg.conninfo.make_conninfo(catalog_dsn, password="wrong")
    with Catalog(CatalogConfig(wrong, connect_seconds=5)) as catalog, pytest.raises(Refused) as raised:
        catalog.migrate()
    assert "catalog.dsn" in raised.value.advice
    assert "password=wrong" not in str(raised.value)


def test_a_catalog_without_tables_says_how_to_make_them(catalog_dsn: str) -> None:
    with (
        Catalog(CatalogConfig(catalog_dsn)) as catalog,
        pytest.raises(NotFound, match="headwater up"),
        catalog.transaction() as transaction,
    ):
        transaction.execute("SELECT * FROM counters")


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://hw:s3cret@db:5432/hw", "postgresql://hw:***@db:5432/hw"),
        ("host=db user=hw password=s3cret dbname=hw", "host=db user=hw password=*** dbname=hw"),
        ("host=db password='a b' dbname=hw", "host=db password=*** dbname=hw"),
        ("postgresql:///hw", "postgresql:///hw"),
    ],
)
def test_a_dsn_is_shown_without_its_password(dsn: str, shown: str) -> None:
    assert without_password(dsn) == shown
    assert "s3cret" not in repr(CatalogConfig(dsn))


@pytest.fixture(autouse=True)
def _quiet_pool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="psycopg.pool")
