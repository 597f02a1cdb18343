"""The index as a file: its lock, its transactions, its identity, and the counter that orders changes.

One process has it open (flock), one thread of it writes. ``synchronous=FULL``: a clock that was given to a change is
on disk before the change can reach Kafka, so no clock ever names two states, not even after a power cut.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

from headwater.producers.filesystem.index.audit import AuditMark
from headwater.producers.filesystem.index.deletes import DeleteTally
from headwater.producers.filesystem.index.directories import Directories
from headwater.producers.filesystem.index.exceptions import Exceptions
from headwater.producers.filesystem.index.files import Files
from headwater.producers.filesystem.index.outbox import OutboxTable
from headwater.producers.filesystem.index.requests import RequestMarks
from headwater.rules.errors import BadSettings, Refused, Unavailable

FORMAT = "1"

_META = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


class Index:
    """Opens or makes the index of ``source`` in ``folder``.

    Raises Refused while another process has it, BadSettings where it belongs to another source.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked(folder / "index.lock")
        # One thread at a time: the one that runs the agent need not be the one that made it.
        self.database = sqlite3.connect(folder / "index.sqlite", isolation_level=None, check_same_thread=False)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("PRAGMA cache_size = -32768")
        self.database.execute(_META)
        self.files = Files(self.database)
        self.directories = Directories(self.database)
        self.exceptions = Exceptions(self.database)
        self.requests = RequestMarks(self.database)
        self.deletes = DeleteTally(self.database)
        self.audit = AuditMark(self.database)
        self.outbox = OutboxTable(self.database)
        try:
            self._check("format", FORMAT, folder)
            self._check("source", source, folder)
        except BadSettings:
            self.close()
            raise
        self.id = UUID(self._meta("index_id", str(uuid4())))
        self.epoch = int(self._meta("epoch", "0"))
        self.seq = int(self._meta("seq", "0"))

    @staticmethod
    def _locked(path: Path) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Refused(
                f"another process has the index in {path.parent} open.",
                asked="To start the agent:",
                kept="Nothing was changed.",
                advice="Stop that agent first, or give this source a state folder of its own.",
            ) from error
        return descriptor

    def _meta(self, name: str, default: str) -> str:
        self.database.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, default))
        return str(self.database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0])

    def _check(self, name: str, expected: str, folder: Path) -> None:
        found = self._meta(name, expected)
        if found != expected:
            raise BadSettings(
                f"the index in {folder} has {name} {found!r}, not {expected!r}.",
                asked="To open the index:",
                kept="Nothing was changed.",
                advice="Give each source a state folder of its own.",
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction, with the counter in it: what the block gave out is committed, or the agent ends.

        Raises Unavailable where the disk is full or fails. After an error the tables' counts are not those of the file
        any more: open the index anew.
        """
        before = self.seq
        try:
            self.database.execute("BEGIN IMMEDIATE")
            yield
            self.outbox.flush()
            if self.seq != before:
                self.database.execute("UPDATE meta SET value = ? WHERE name = 'seq'", (str(self.seq),))
            self.database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._roll_back()
            raise self._unwritable(error) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self.database.in_transaction:  # SQLite has rolled back by itself where the disk was full
            self.database.execute("ROLLBACK")

    def _unwritable(self, error: sqlite3.OperationalError) -> Unavailable:
        return Unavailable(
            f"the index in {self._folder} cannot be written: {error}.",
            asked="To record what was found:",
            kept="What was recorded before is kept; the rest is found again after the next start.",
            advice="Make room on its disk, or mend it, and start the agent again.",
        )

    def forget_future(self, now: float) -> None:
        """The clock was set back to ``now``: what is to happen, or has happened, later than that is due now. A listing
        of a later time proves nothing, since what went missing went after it. Only inside a transaction."""
        self.directories.forget_future(now)
        self.exceptions.forget_future(now)
        self.files.forget_future(now)

    def next_seq(self) -> int:
        """The clock of the next change; only inside a transaction."""
        self.seq += 1
        return self.seq

    def enter_epoch(self, epoch: int) -> None:
        """Begin anew under a new epoch, inside a transaction: what was known or sent under the old one is void."""
        for table in (
            self.files,
            self.directories,
            self.exceptions,
            self.requests,
            self.deletes,
            self.audit,
            self.outbox,
        ):
            table.clear()
        self.database.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (str(epoch),))
        self.epoch = epoch

    def close(self) -> None:
        self.database.close()
        os.close(self._lock)
