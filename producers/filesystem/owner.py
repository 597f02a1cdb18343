"""The agent's side of the catalog: owning the source, and learning what became of what it sent."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from time import monotonic

from headwater.connectors.catalog import sources
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.sources import KnownPath, Ownership
from headwater.observe import logs
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile, Pending
from headwater.producers.filesystem.tree import Attributes, Signature
from headwater.rules.errors import Unavailable
from headwater.schemas import topics

log = logs.logger()

_PAGE = 5_000
_PAGES_PER_POLL = 4
"""Pending paths asked for in one poll: 20,000 hashes in four statements."""

_RETRY_SECONDS = 5.0
"""The catalog is asked again this long after it did not answer, or after twice the time that it took not to: the work
on disk and log goes on meanwhile."""


class Owner:
    """Called from the agent's thread. ``trouble`` says that the catalog does not answer, in its words."""

    def __init__(self, config: AgentConfig, catalog: Catalog, index: Index, clock: Callable[[], float]) -> None:
        self._config = config
        self._catalog = catalog
        self._index = index
        self._clock = clock
        self._beat_at = 0.0
        self._poll_at = 0.0
        self._cursor = -1
        self._ownership: Ownership | None = None
        self.complete_to = 0
        self.trouble: str | None = None

    @property
    def ownership(self) -> Ownership | None:
        """The source as it is owned; None before ``own``."""
        return self._ownership

    def own(self, *, take_over: bool = False) -> None:
        """Own the source. Under a new epoch the index begins anew, from what the catalog holds: so a path that is gone
        becomes a delete, and content that is stored is not sent again. Raises Refused while another agent lives,
        unless it is to be fenced (``take_over``)."""
        ownership = self._own(take_over)
        if ownership.epoch != self._index.epoch:
            self._begin_epoch(ownership)
        self._ownership = ownership

    def _own(self, take_over: bool) -> Ownership:
        with self._catalog.transaction() as transaction:
            return sources.own(
                transaction,
                source=self._config.source,
                site=self._config.site,
                root=os.fsencode(self._config.root),
                dataset=self._config.dataset,
                index_id=self._index.id,
                index_seq=self._index.seq,
                agent=f"{socket.gethostname()}/{os.getpid()}",
                partitions=topics.fs_changes(self._config.site).partitions,
                take_over=take_over,
            )

    def _begin_epoch(self, ownership: Ownership) -> None:
        if ownership.taken_over is not None:
            log.warning(
                "source.taken_over", source=ownership.source, before=ownership.taken_over, epoch=ownership.epoch
            )
        with self._index.transaction():
            self._index.enter_epoch(ownership.epoch)
            after: bytes = b""
            while True:
                with self._catalog.transaction() as transaction:
                    page = sources.known_paths(transaction, ownership.source, after, _PAGE)
                if not page:
                    return
                for path in page:
                    self._index.files.put(_from_catalog(path), None, sent_at=self._clock())
                after = page[-1].path

    def beat(self) -> None:
        """Say that this agent lives, every few seconds. Raises Fenced where another one owns the source."""
        asked_at = monotonic()
        if asked_at < self._beat_at or self._ownership is None:
            return
        try:
            with self._catalog.transaction() as transaction:
                sources.heartbeat(transaction, self._ownership)
            self._beat_at, self.trouble = monotonic() + self._config.heartbeat_seconds, None
        except Unavailable as error:
            self._wait(error, asked_at)

    def confirm(self) -> list[bytes]:
        """Learn, every few seconds, which pending paths are verified; returns those that are to be sent again."""
        asked_at = monotonic()
        if asked_at < self._poll_at or self._ownership is None:
            return []
        self._poll_at = monotonic() + self._config.verified_poll_seconds
        again: list[bytes] = []
        try:
            with self._catalog.transaction() as transaction:
                self.complete_to = sources.complete_to(transaction, self._ownership)
            for _ in range(_PAGES_PER_POLL):
                recorded = self._index.files.pending(self._cursor, self.complete_to, _PAGE)
                again += self._judge(recorded)
                self._cursor = recorded[-1].seq if len(recorded) == _PAGE else -1
                if self._cursor < 0:
                    break
        except Unavailable as error:
            self._wait(error, asked_at)
        return again

    def _judge(self, recorded: list[Pending]) -> list[bytes]:
        """Mark those that are safe: recorded in the catalog, their bytes verified; returns those that wait in vain."""
        hashes = {path.hash for path in recorded if path.hash is not None}
        states: dict[bytes, str] = {}
        if hashes:
            with self._catalog.transaction() as transaction:
                states = sources.object_states(transaction, list(hashes))
        safe = [path for path in recorded if path.hash is None or states.get(path.hash) == "verified"]
        if safe:
            with self._index.transaction():
                self._index.files.mark_verified((path.path, path.seq) for path in safe)
        idle = [path for path in recorded if path.hash is not None and path.hash not in states]
        return [path.path for path in idle if self._waited_too_long(path)]

    def _waited_too_long(self, pending: Pending) -> bool:
        waits: float = self._config.resend_seconds * 2 ** (pending.sends - 1)
        return self._clock() - pending.sent_at > waits

    def excepted_among(self, paths: list[bytes]) -> set[bytes]:
        """Those of the paths that the cloud side named as exceptions."""
        with self._catalog.transaction() as transaction:
            return sources.excepted_among(transaction, self._config.source, paths)

    def goodbye(self) -> None:
        """Free the source for another agent at once, if the catalog answers."""
        if self._ownership is None:
            return
        try:
            with self._catalog.transaction() as transaction:
                sources.goodbye(transaction, self._ownership)
        except Unavailable as error:
            self._note(error)

    def _wait(self, error: Unavailable, asked_at: float) -> None:
        now = monotonic()
        self._beat_at = self._poll_at = now + max(_RETRY_SECONDS, 2 * (now - asked_at))
        self._note(error)

    def _note(self, error: Unavailable) -> None:
        if self.trouble is None:
            log.warning("catalog.waits", source=self._config.source, error=str(error))
        self.trouble = error.happened


def _from_catalog(path: KnownPath) -> KnownFile:
    """A row without a signature: the walk reads the file, and says nothing where it is as the catalog has it."""
    return KnownFile(
        path=path.path,
        file_type=path.file_type,
        signature=Signature(path.size, path.mtime_ns, 0, 0, 0),
        attributes=Attributes(path.mtime_ns, path.mode, path.uid, path.gid),
        hash=path.hash,
        parts=path.parts,
        link_target=path.link_target,
        strong=path.strong,
        seq=0,
    )
