"""The database of jobs: the catalog's client on a schema of its own, and the bell that wakes the outbox's relay.

The modules beside this one take a ``Transaction``, one module a subject. Whoever changes a job's state compares and
sets it in one statement; what others must hear of it is written by triggers in the same transaction (``migrations``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from headwater.connectors.catalog.client import Catalog, Transaction
from headwater.connectors.jobs.config import JobsConfig
from headwater.rules.errors import HeadwaterError

__all__ = ["CHANNEL", "JobsDatabase", "Transaction"]

CHANNEL = "headwater_outbox"
"""Of LISTEN and NOTIFY: something lies in the outbox."""


class JobsDatabase(Catalog):
    """A pool of connections. Safe for threads; close it once."""

    package = "headwater.connectors.jobs"
    name, setting = "the database of jobs", "jobs.dsn (by default catalog.dsn, or HEADWATER_POSTGRES)"
    config: JobsConfig

    def __init__(self, config: JobsConfig, *, application: str = "headwater") -> None:
        limits = (
            f"-c search_path=jobs -c statement_timeout={config.statement_seconds * 1_000:.0f} "
            f"-c idle_in_transaction_session_timeout={config.idle_seconds * 1_000:.0f}"
        )
        super().__init__(config, application=application, options=limits)
        self._bell = _Bell(self)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction that may change jobs: after its commit the relay is woken. Raises as the catalog's does."""
        with super().transaction() as transaction:
            yield transaction
        self._bell.ring()

    @contextmanager
    def quiet(self) -> Iterator[Transaction]:
        """A transaction that changes no job's state, and so leaves nothing in the outbox: reads, beats, boards."""
        with super().transaction() as transaction:
            yield transaction

    def migrate(self) -> list[str]:
        with self.quiet() as transaction:
            transaction.execute("SELECT pg_advisory_xact_lock(hashtext('headwater migrations'))")
            transaction.execute("CREATE SCHEMA IF NOT EXISTS jobs")
        return super().migrate()

    def close(self) -> None:
        self._bell.close()
        super().close()


class _Bell:
    """Notifies the relay, from a thread of its own.

    NOTIFY inside the transactions themselves would let them commit one at a time, each with its wait for the disk
    (PostgreSQL orders notifications by one lock, held to the end of the commit). A transaction that only notifies waits
    for no disk; many changes at once ring once; and who commits waits for none of it. A ring that gets lost costs the
    time until the relay looks by itself.
    """

    def __init__(self, jobs: JobsDatabase) -> None:
        self._jobs = jobs
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
        while self._rung.wait():
            self._rung.clear()
            if self._closed:
                return
            try:
                with self._jobs.quiet() as transaction:
                    transaction.execute(f"NOTIFY {CHANNEL}")
            except HeadwaterError:
                continue
