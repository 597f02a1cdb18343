"""One file's cast, from its announcement to its seal.

1. open      the source: a regular file that nobody writes                            (producers/caster/source.py)
2. issue     one catalog transaction: the epoch; unfinished older casts of the name are aborted
3. announce  on the log: first what older casts are untold, then this one. Peers begin to wait for hashes
4. hash      every chunk in order; the hashes go to the log as they come. Peers begin to fetch
5. prove     the source is what it was when it was opened, and its path still leads to it
6. decide    one catalog transaction: sealed, where this cast is still announced
7. seal      on the log: the root. Peers may install
8. note      in the catalog that the log has it

Whatever goes wrong from 2 to 5 aborts the cast, in the catalog and on the log, with the reason. A crash after 2 leaves
a cast that no peer heard of; after 3, 4 or 5 one that peers never install. The next publisher of the name, or whoever
says `headwater cast abort`, ends it; else it expires. A crash after 6 or 7 leaves a sealed cast that may be untold: the
next publisher on this host tells it. At no time can peers install two states of a file as one: chunks are checked
against the hashes of 4, and the root is said only after 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TypeVar

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.casts import Cast
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.hashing import hashed
from headwater.producers.caster.manifest import ManifestLog
from headwater.producers.caster.order import Order
from headwater.producers.caster.source import Source
from headwater.producers.caster.telling import tell
from headwater.rules.cast.chunks import root_of
from headwater.rules.errors import HeadwaterError, Torn, Transient, Unavailable
from headwater.schemas.cast_manifest import ManifestState
from headwater.schemas.cast_records import ManifestKind
from headwater.schemas.cast_view import ORIGIN

log = logs.logger()
Answer = TypeVar("Answer")

_AGAIN_SECONDS = 1.0
"""Between two tries to reach a catalog that is away."""
_LAST_WORD_SECONDS = 5.0
"""How long a caster that gives up waits for the log; the next publisher tells what it could not."""


class Caster:
    """Steps 2 to 8, by one thread; ``stop`` and what is shown of it by any."""

    def __init__(self, config: CasterConfig, kafka: Kafka, catalog: Catalog, source: Source, order: Order) -> None:
        """Raises BadSettings where the file cannot be cut as it was ordered."""
        self.chunks = order.chunks(source.identity.size)
        self.hashes = b""
        """As far as they are known and handed to the log."""
        self._config = config
        self._kafka = kafka
        self._catalog = catalog
        self._source = source
        self._order = order
        self._stopping = Event()
        self._why = ""
        self._away = ""
        self._manifests = ManifestLog(kafka, stop=self._stopping)

    @property
    def origin(self) -> str:
        """The peer that serves the source. It has a name of its own: the host may run another peer."""
        return f"{self._order.origin}{ORIGIN}{self.cast.epoch}"

    @property
    def waits(self) -> str:
        """What it waits for, if it does."""
        return self._away or self._manifests.waits

    def stop(self, reason: str) -> None:
        """Give up before the seal; after it, nothing happens."""
        self._why = self._why or reason
        self._stopping.set()

    def announce(self, prepare: Callable[[], None] = lambda: None) -> Cast:
        """Steps 2 and 3. Raises what reaching the catalog and the log raises.

        ``prepare`` is called between them, when the epoch is known and no peer waits yet: whoever serves the file gets
        ready. Where it fails, it has aborted the cast.
        """
        self.cast = self.issue()
        prepare()
        self._or_abort(self.announce_on_log)
        return self.cast

    def run(self) -> bytes:
        """Steps 4 to 8; returns the root.

        Raises Torn where the source changed, Fenced where somebody else ended the cast, and Unavailable where it was
        stopped. The cast is aborted then.
        """
        self._or_abort(self.hash)
        self._or_abort(self.prove)
        root = root_of(self.chunks, self.hashes)
        self._or_abort(lambda: self.decide(root))
        self.seal(root)
        self._patiently(self.note)
        return root

    def issue(self) -> Cast:
        """Step 2."""
        with self._catalog.transaction() as transaction:
            return casts.announce(
                transaction,
                name=self._order.name,
                origin=self._order.origin,
                file=os.fsencode(self._source.path),
                file_name=self._order.file_name,
                size=self.chunks.size,
                chunk_bytes=self.chunks.chunk_bytes,
                targets=self._order.targets,
                expires_at=datetime.now(UTC) + timedelta(seconds=self._order.expires_seconds),
            )

    def announce_on_log(self) -> None:
        """Step 3."""
        with self._catalog.transaction() as transaction:
            untold = casts.untold(transaction, self._order.name, self._order.origin)
        tell(self._kafka, self._catalog, untold)
        self._say(
            ManifestKind.announced,
            f"{self._order.origin} has the file",
            file_name=self._order.file_name,
            size=self.chunks.size,
            chunk_bytes=self.chunks.chunk_bytes,
            mtime_ns=self._source.identity.mtime_ns,
            origin=self.origin,
            targets=self._order.targets,
            expires_us=int(self.cast.expires_at.timestamp() * 1_000_000),
        )
        self._manifests.settle()

    def hash(self) -> None:
        """Step 4."""
        for first, hashes in hashed(self._source, self.chunks, self._config):
            self._heed_stop()
            self._say(ManifestKind.hashes, "", first_chunk=first, hashes=hashes)
            self.hashes += hashes
        self._manifests.settle()
        self._heed_stop()

    def prove(self) -> None:
        """Step 5. Raises Torn."""
        change = self._source.change()
        if not change and self._source.is_open_for_writing():
            change = "a process opened it for writing"
        if change:
            raise Torn(
                f"the source changed while it was being hashed: {change}.",
                asked=f"{self._source.path} was cast as {self._order.name}.",
                kept="The cast is aborted; no peer installs anything of it, and what peers had before is kept.",
                advice="Publish it again when its writer is done.",
            )

    def decide(self, root: bytes) -> None:
        """Step 6. Raises Fenced where the cast ended meanwhile."""

        def seal() -> None:
            with self._catalog.transaction() as transaction:
                casts.seal(transaction, self.cast.epoch, root)

        self._heed_stop()
        self._patiently(seal)

    def seal(self, root: bytes) -> None:
        """Step 7."""
        self._say(ManifestKind.sealed, "the source was found unchanged", root=root)
        self._manifests.settle()

    def note(self) -> None:
        """Step 8."""
        with self._catalog.transaction() as transaction:
            casts.told(transaction, self.cast.epoch, ManifestState.sealed)

    def abort(self, reason: str) -> None:
        """End the cast, also a sealed one: in the catalog, then on the log. What cannot be reached is left for the
        next publisher, or for expiry."""
        try:
            with self._catalog.transaction() as transaction:
                casts.end(transaction, self.cast.epoch, ManifestState.aborted, reason)
                ended = casts.by_epoch(transaction, self.cast.epoch)
            if not ended.told:
                tell(self._kafka, self._catalog, [ended], seconds=_LAST_WORD_SECONDS)
        except Transient as error:
            log.warning("cast.abort_untold", name=self._order.name, epoch=self.cast.epoch, error=str(error))

    def _say(self, kind: ManifestKind, reason: str, **fields: object) -> None:
        self._manifests.say(self.cast.name, self.cast.epoch, kind, reason=reason, **fields)

    def _or_abort(self, step: Callable[[], Answer]) -> Answer:
        try:
            return step()
        except HeadwaterError as error:
            self._raise_if_ended()
            # Whatever it waited for just then, a caster that was told to stop ends for that reason.
            told_to_stop = self._stopping.is_set() and isinstance(error, Unavailable)
            self.abort(self._why if told_to_stop else error.happened.rstrip("."))
            raise
        except OSError as error:
            self.abort(f"the source could not be read: {error.strerror}")
            raise

    def _heed_stop(self) -> None:
        if self._stopping.is_set():
            raise Unavailable(
                f"{self._why}.",
                asked=f"{self._source.path} was being cast as {self._order.name}.",
                kept="The cast is aborted: it was not whole yet, so that no peer installs anything of it.",
                advice="Publish it again.",
            )

    def _raise_if_ended(self) -> None:
        """Raises Fenced where somebody else ended the cast."""
        try:
            with self._catalog.transaction() as transaction:
                cast = casts.by_epoch(transaction, self.cast.epoch)
        except Transient:
            return
        if cast.state is not ManifestState.announced:
            raise casts.ended(cast)

    def _patiently(self, ask: Callable[[], None]) -> None:
        """Ask the catalog until it answers, or until this is stopped."""
        while True:
            try:
                ask()
                self._away = ""
                return
            except Transient as error:
                if not self._away:
                    log.warning("cast.waits", epoch=self.cast.epoch, reason=error.happened)
                self._away = error.happened
                if self._stopping.wait(_AGAIN_SECONDS):
                    raise
