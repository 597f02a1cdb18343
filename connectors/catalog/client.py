"""One client of the catalog: connections, transactions, migrations, and its errors mapped to ours.

The SQL of each subject stands in a module of its own beside this one (sources, files, objects, versions).
No transaction waits for S3, lakeFS, Kafka or a GPU: do the slow work first, then write in one set-based statement.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Self

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from headwater.connectors.catalog.config import CatalogConfig, without_password
from headwater.rules.errors import HeadwaterError, NotFound, Refused, Unavailable

_REFUSAL = re.compile(r"authentication failed|no pg_hba\.conf entry|(role|database) \".*\" does not exist")
"""libpq gives no error code for a connection that the server turns away, only its words."""

# The pool logs every failed attempt; the error that we raise says it once.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

_GONE_WITHOUT_A_WORD = {
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
"""A server, or a firewall before it, that vanishes without closing its connections is noticed after 40 s. By the
kernel's own settings that takes 15 minutes where something is under way, and two hours where an answer is awaited. The
DSN may say otherwise."""

Transaction = Connection[TupleRow]
"""A connection inside an open transaction: what the modules beside this one take."""


class Catalog:
    """A pool of connections. Safe for threads; close it once."""

    package = "headwater.connectors.catalog"
    """Beside which module the folder of migrations is."""
    name, setting = "the catalog", "catalog.dsn (or HEADWATER_POSTGRES)"
    """What errors call it, and what says where it is."""

    def __init__(self, config: CatalogConfig, *, application: str = "headwater", options: str = "") -> None:
        """``options``: of each session, as libpq takes them (``-c name=value …``), after those of the DSN."""
        self.config = config
        given = conninfo_to_dict(config.dsn)
        session = {"options": f"{given.get('options', '')} {options}".strip()} if options else {}
        self._pool = ConnectionPool(
            min_size=0,
            max_size=config.connections,
            timeout=config.connect_seconds,
            kwargs={"application_name": application} | _GONE_WITHOUT_A_WORD | given | session,
            open=False,
        )
        self._pool.open()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One transaction: committed where the block ends, rolled back where it raises.

        Raises Unavailable when the server cannot be reached or goes away, Refused when it rejects the credentials.
        After an Unavailable the commit may or may not have happened: repeat only what is idempotent.
        """
        try:
            with self._pool.connection() as connection:
                yield connection
        except HeadwaterError:
            raise
        except psycopg.errors.UndefinedTable as error:
            raise NotFound(
                f"{self.name} at {without_password(self.config.dsn)} lacks a table: {error.diag.message_primary}",
                kept="Nothing was written.",
                advice="Run `headwater up`: it brings the tables up to date.",
            ) from error
        except PoolTimeout as error:
            raise self._mapped(self._connection_failure() or error) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._mapped(error) from error

    def _connection_failure(self) -> Exception | None:
        """Why no connection came: the pool only says that it waited."""
        try:
            psycopg.connect(self.config.dsn, connect_timeout=2).close()
        except psycopg.Error as error:
            return error
        return None

    def _mapped(self, error: Exception) -> HeadwaterError:
        where = without_password(self.config.dsn)
        if _REFUSAL.search(str(error)):
            return Refused(
                f"{self.name} at {where} refused the connection: {str(error).strip()}",
                kept="Nothing was written.",
                advice=f"Set {self.setting} to a database and a role that may connect.",
            )
        return Unavailable(
            f"{self.name} at {where} does not answer: {str(error).strip()}",
            kept="What was committed before is kept.",
            advice=f"Check that PostgreSQL runs and that {self.setting} names it.",
        )

    def migrate(self) -> list[str]:
        """Apply the migrations that this database lacks, in order, each in its own transaction; returns their names.

        Safe to run from many processes at once: an advisory lock lets one work and the others find it done.
        """
        applied: list[str] = []
        for name, text in _migrations(self.package):
            with self.transaction() as transaction:
                transaction.execute("SELECT pg_advisory_xact_lock(hashtext('headwater migrations'))")
                transaction.execute(
                    "CREATE TABLE IF NOT EXISTS migrations "
                    "(name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
                )
                if transaction.execute("SELECT 1 FROM migrations WHERE name = %s", [name]).fetchone():
                    continue
                transaction.execute(text)
                transaction.execute("INSERT INTO migrations (name) VALUES (%s)", [name])
                applied.append(name)
        return applied

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _migrations(package: str) -> list[tuple[str, bytes]]:
    folder = files(package) / "migrations"
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda e: e.name)
    return [(entry.name.removesuffix(".sql"), entry.read_bytes()) for entry in entries]
