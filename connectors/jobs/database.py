"""The database of jobs: the catalog's client on a schema of its own, and the bell that wakes the outbox's relay.

The modules beside this one take a ``Transaction``, one module a subject. Whoever changes a job's state compares and
sets it in one statement; what others must hear of it is written by triggers in the same transaction (``migrations``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

import psycopg

from headwater.connectors.catalog.client import Catalog, Transaction
from headwater.connectors.jobs.config import JobsConfig

__all__ = ["Bell", "JobsDatabase", "Transaction"]

_CHANNEL = "headwater_outbox"


class _Sessions(Catalog):
    package = "headwater.connectors.jobs"
    name, setting = "the database of jobs", "jobs.dsn (by default catalog.dsn, or HEADWATER_POSTGRES)"

    def __init__(self, config: JobsConfig, *, application: str, durable: bool) -> None:
        options = {
            "search_path": "jobs",
            "statement_timeout": f"{config.statement_seconds * 1_000:.0f}",
            "idle_in_transaction_session_timeout": f"{config.idle_seconds * 1_000:.0f}",
            # Plans are made while tables are small, and kept: to read all of jobs, cheap then, took 0.2 s later.
            "enable_seqscan": "off",
        }
        if not durable:
            options["synchronous_commit"] = "off"
        given = " ".join(f"-c {name}={value}" for name, value in options.items())
        super().__init__(config, application=application, options=given)


class JobsDatabase(_Sessions):
    """Two pools of connections. Safe for threads; close it once."""

    config: JobsConfig

    def __init__(self, config: JobsConfig, *, application: str = "headwater") -> None:
        super().__init__(config, application=application, durable=True)
        self._quiet = _Sessions(config, application=application, durable=False)
        self._ringer = _Ringer(config.dsn)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction that may change jobs: after its commit the relay is woken. Raises as the catalog's does."""
        with super().transaction() as transaction:
            yield transaction
        self.wake()

    @contextmanager
    def autocommit(self) -> Iterator[Transaction]:
        """The same, but each statement is a transaction of its own: one round trip in place of three, for those paths
        that are one statement (they say so)."""
        with super().transaction() as connection:
            connection.autocommit = True
            try:
                yield connection
            finally:
                if not connection.closed:
                    connection.autocommit = False
        self.wake()

    @contextmanager
    def quiet(self) -> Iterator[Transaction]:
        """A transaction that may be lost where the server crashes, so that its commit waits for no disk: reads, beats,
        boards, grants (the claim's commit keeps them). It does not wake the relay."""
        with self._quiet.transaction() as transaction:
            yield transaction

    def wake(self) -> None:
        """Something may lie in the outbox. Waits for nothing."""
        self._ringer.ring()

    def bell(self) -> Bell:
        """Hears when something may lie in the outbox. The caller closes it. Raises Unavailable."""
        try:
            return Bell(self, psycopg.connect(self.config.dsn, connect_timeout=5, autocommit=True))
        except psycopg.Error as error:
            raise self._mapped(error) from error

    def migrate(self) -> list[str]:
        with self.quiet() as transaction:
            transaction.execute("SELECT pg_advisory_xact_lock(hashtext('headwater migrations'))")
            transaction.execute("CREATE SCHEMA IF NOT EXISTS jobs")
        return super().migrate()

    def close(self) -> None:
        self._ringer.close()
        self._quiet.close()
        super().close()


class Bell:
    """A connection that listens. Used from one thread."""

    def __init__(self, database: JobsDatabase, connection: psycopg.Connection) -> None:
        self._database = database
        self._connection = connection
        connection.execute(f"LISTEN {_CHANNEL}")

    def wait(self, seconds: float) -> bool:
        """Whether it rang since the last time, or rings within so long. Raises Unavailable."""
        try:
            return any(self._connection.notifies(timeout=seconds, stop_after=1))
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._database._mapped(error) from error

    def close(self) -> None:
        self._connection.close()


class _Ringer:
    """Notifies the relay, from a thread and a connection of its own: one round trip a ring.

    NOTIFY inside the transactions themselves would let them commit one at a time, each with its wait for the disk
    (PostgreSQL orders notifications by one lock, held to the end of the commit). A transaction that only notifies waits
    for no disk; many changes at once ring once; and who commits waits for none of it. A ring that gets lost costs the
    time until the relay looks by itself.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._rung = Event()
        self._closed = False
        self._lock = Lock()
        self._thread: Thread | None = None

    def ring(self) -> None:
        self._rung.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closed:
                    self._thread = Thread(target=self._serve, name="outbox-bell", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._rung.set()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        connection: psycopg.Connection | None = None
        while self._rung.wait():
            self._rung.clear()
            if self._closed:
                break
            try:
                connection = connection or psycopg.connect(self._dsn, connect_timeout=5, autocommit=True)
                connection.execute(f"NOTIFY {_CHANNEL}")
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()
