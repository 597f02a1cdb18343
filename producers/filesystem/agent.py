"""The agent of one source: what happens below its root becomes records on the log, each state once, none missing.

Everything here runs in one thread, which alone touches the index; a thread drains the kernel's events, and a few
threads read files. Each turn of the loop does a bounded amount of each kind of work, so nothing waits for a large
directory, a large file or a burst.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import logs
from headwater.producers.filesystem.audit import Audit
from headwater.producers.filesystem.config import AgentConfig, checked
from headwater.producers.filesystem.consent import Consent
from headwater.producers.filesystem.deletes import Deletes
from headwater.producers.filesystem.filters import Filters
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.intake import Intake
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.notice import Notice
from headwater.producers.filesystem.once import Once
from headwater.producers.filesystem.outbox import Outbox
from headwater.producers.filesystem.owner import Owner
from headwater.producers.filesystem.reach import Reach
from headwater.producers.filesystem.readers import Readers
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.requests import Requests
from headwater.producers.filesystem.root import Root
from headwater.producers.filesystem.set_back import SetBack
from headwater.producers.filesystem.settle import Settling
from headwater.producers.filesystem.status import AgentStatus, export
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.walk import Walk
from headwater.producers.filesystem.watch import open_watch
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.schemas import topics

log = logs.logger()

_LOOKS = 2_000
"""Paths looked at in one turn."""

_WALK_SECONDS = 0.05
"""Time for listing in one turn."""

_SHOW_SECONDS = 0.5

_FAREWELL_SECONDS = 5.0
"""How long a stopping agent waits for Kafka's acknowledgements."""

_IN_FLIGHT_SECONDS = 0.005
"""Rest while Kafka owes acknowledgements: they are taken in between turns."""

_REST_SECONDS = 0.2
"""Longest rest between two turns: how soon a stop, a request or an unmounted root is noticed."""


class Agent:
    """Made, run once, and done. ``stop`` may be called from a signal handler or another thread; ``status`` read from
    any."""

    def __init__(
        self, config: AgentConfig, kafka: Kafka, catalog: Catalog, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Raises NotFound or BadSettings for a wrong config, Refused where another process has the index."""
        self._config = config = checked(config)
        self._kafka = kafka
        self._clock = clock
        self._stopping = Event()
        self._woken = Event()
        self._index = Index(config.state_folder, config.source)
        self._tree = tree = Tree(config.root)
        self._mounts = mounts = Mounts(tree.root)
        self._root = Root(config.source, tree, mounts, self._index)
        self._owner = Owner(config, catalog, self._index, clock)
        self._consent = Consent(config, catalog, self._index, self._owner, self._root, clock)
        self._settling = Settling()
        self._recorder = Recorder(config, tree, self._index, clock)
        filters = Filters(config.include, config.exclude)
        self._notice = Notice(config, tree, filters, self._index, self._settling, self._recorder, clock)
        self._dirty = DirtySet(config.dirty_limit)
        self._watch = open_watch(config, tree, mounts, self._dirty, self._woken.set)
        self._reach = Reach(tree, mounts, self._watch)
        self._walk = Walk(config, tree, filters, self._index, mounts, self._reach, self._notice, self._recorder, clock)
        self._set_back = SetBack(config.source, self._index, self._settling, self._walk, clock)
        self._deletes = Deletes(tree, mounts, self._index, self._notice, self._recorder, self._consent, clock)
        self._readers = Readers(config, tree, clock, self._woken.set)
        self._intake = Intake(
            config, tree, self._index, self._settling, self._readers, self._notice, self._recorder, clock
        )
        self._audit = Audit(config, tree, self._index, self._settling, self._notice, self._recorder, clock)
        self._requests = Requests(config.source, kafka, self._index, self._notice.look)
        self._outbox = Outbox(config, kafka, self._index, clock)
        self._once: Once | None = None
        self._walked = False
        self._halted: str | None = None
        self._shown_at = 0.0
        self.status = self._show()

    def run(self, *, once: bool = False, take_over: bool = False) -> AgentStatus:
        """Follow the source until ``stop``; with ``once`` until every path is verified or named. ``take_over``: fence
        another agent of it that lives.

        Raises Refused or Unavailable at the start, Fenced when another agent took the source over, and with ``once``
        Unavailable when no uploader of the site lives.
        """
        try:
            self._start(once, take_over)
            moved = True
            while not self._is_done():
                if not moved:
                    self._rest()
                moved = self._look()
                moved |= self._read()
                moved |= self._record()
                moved |= self._send()
                moved |= self._confirm()
                self._show(afresh=once and not moved)
            self._outbox.close(_FAREWELL_SECONDS)
            self._owner.goodbye()
            log.info("agent.stopped", **self._show(afresh=True).as_json())
            return self.status
        finally:
            self._close()

    def stop(self) -> None:
        """End the loop after its present turn; what is on disk and not yet on the log goes out after the next start."""
        self._stopping.set()
        self._woken.set()

    def _start(self, once: bool, take_over: bool) -> None:
        verify_topics(
            self._kafka,
            (topics.fs_changes(self._config.site), topics.fs_parts(self._config.site), topics.SYNC_REQUESTS),
        )
        if once:
            self._once = Once(self._config, self._kafka, self._owner, self._index)
            self._once.require_uploaders()
        self._owner.own(take_over=take_over)
        self._set_back.begin()
        self._watch.start()
        index, config = self._index, self._config
        log.info(
            "agent.started", source=config.source, root=str(config.root), epoch=index.epoch, seq=index.seq,
            watch=config.watch,
        )  # fmt: skip

    def _is_done(self) -> bool:
        return self._stopping.is_set() or (self._once is not None and self._once.is_finished(self.status))

    def _look(self) -> bool:
        """Find what may have changed: from events, requests, retries, and the walk. Nothing while halted."""
        self._watch.check()
        self._set_back.heed()
        self._heed_root()
        if self._halted is not None:
            return False
        room = self._config.settling_limit - len(self._settling)
        with self._index.transaction():
            moved = self._heed_events(max(0, min(room, _LOOKS)))
            moved |= self._retry_excepted(max(0, min(room, _LOOKS)))
            moved |= room > 0 and self._walk_some()
            moved |= self._deletes.release(_LOOKS, hold_seconds=self._hold_seconds()) > 0
        return moved | self._requests.poll()

    def _heed_root(self) -> None:
        trouble = self._root.trouble()
        if trouble is not None and self._halted is None:
            log.error("agent.halted", source=self._config.source, why=trouble, kept="nothing is deleted or sent")
        if trouble is not None and self._root.is_emptied():
            self._consent.emptied(trouble)
        if trouble is None and self._halted is not None:
            log.info("agent.resumed", source=self._config.source)
            with self._index.transaction():
                self._walk.start_over()
        self._halted = trouble

    def _heed_events(self, limit: int) -> bool:
        dirty, now = self._dirty.take(limit), self._clock()
        for mount in self._mounts.take_changes():
            log.info("agent.mounts_changed", source=self._config.source, path=mount)
            self._walk.tree_changed(mount)
        if dirty.everything:
            self._walk.start_over()
        for tree in dirty.trees:
            self._walk.tree_changed(tree)
        for directory in dirty.directories:
            self._index.directories.make_due(directory, now)
        for path in dirty.paths:
            self._notice.look(path)
        return bool(dirty.paths)

    def _retry_excepted(self, limit: int) -> bool:
        due = self._index.exceptions.due(self._clock(), limit)
        for path in due:
            self._index.exceptions.postpone(path, self._clock() + self._config.retry_seconds)
            self._notice.look(path)
        return bool(due)

    def _walk_some(self) -> bool:
        until = time.monotonic() + _WALK_SECONDS
        while time.monotonic() < until:
            if not self._walk.step():
                self._note_walked()
                return False
        return True

    def _note_walked(self) -> None:
        if not self._walked:
            self._walked = True
            log.info("agent.walked", source=self._config.source, files=self._index.files.count, seq=self._index.seq)

    def _hold_seconds(self) -> float:
        """A single run need not hold deletes: once all is read, a rename would have been seen."""
        if self._once is not None and self._walked and not self._settling.unnamed:
            return 0.0
        return self._config.delete_hold_seconds

    def _read(self) -> bool:
        """Hand what has settled to the reading threads, unless Kafka is far behind."""
        if self._index.outbox.count > self._config.outbox_limit:
            return False
        return self._intake.hand_out()

    def _record(self) -> bool:
        """Record what was read: rows, clocks and records of many files in one transaction."""
        audited = self._halted is None and self._audit.step(idle=self._walked and not self._readers.busy)
        return self._intake.take_in(self._config.batch_changes) | audited

    def _send(self) -> bool:
        moved = self._outbox.pump()
        self._outbox.checkpoint(idle=self._outbox.is_empty and not self._readers.busy)
        return moved

    def _confirm(self) -> bool:
        """Keep the source, learn what is verified, ask again for what nobody works on, and for consent to deletes."""
        self._owner.beat()
        self._consent.ask()
        again = self._owner.confirm()
        if again:
            with self._index.transaction():
                for path in again:
                    self._index.requests.mark(path, "unverified")
                    self._notice.look(path)
        return bool(again)

    def _show(self, *, afresh: bool = False) -> AgentStatus:
        """Publish a snapshot: now and then, and ``afresh`` where somebody decides by it."""
        if time.monotonic() < self._shown_at and not afresh:
            return self.status
        self._shown_at = time.monotonic() + _SHOW_SECONDS
        oldest, now = self._index.directories.oldest_listing(), self._clock()
        self.status = AgentStatus(
            source=self._config.source,
            epoch=self._index.epoch,
            seq=self._index.seq,
            files=self._index.files.count,
            dirty=len(self._dirty),
            settling=self._settling.unnamed - self._settling.reading,
            reading=self._settling.reading,
            held=self._index.files.missing_count(),
            outbox=self._index.outbox.count,
            pending=self._index.files.pending_count,
            exceptions=self._index.exceptions.count,
            walked=self._walked,
            directories_due=self._index.directories.due_count(now),
            listing_age_seconds=now - oldest if oldest else None,
            weak=self._index.files.weak_count,
            watch=self._config.watch,
            polled=self._reach.polled(),
            overflows=self._watch.overflows,
            unwatched=self._watch.unwatched,
            halted=self._halted,
            deletes_halted=self._consent.halt.reason if self._consent.halt else None,
            trouble=self._outbox.trouble or self._owner.trouble,
        )
        export(self.status)
        return self.status

    def _rest(self) -> None:
        """Wait for an event, a reading thread, or the next moment that something is due."""
        due_at = self._settling.next_due_at()
        seconds = _REST_SECONDS if due_at is None else min(_REST_SECONDS, max(0.0, due_at - self._clock()))
        self._woken.wait(min(seconds, _IN_FLIGHT_SECONDS) if self._outbox.in_flight else seconds)
        self._woken.clear()

    def _close(self) -> None:
        self._watch.close()
        self._mounts.close()
        self._readers.close()
        self._audit.close()
        self._requests.close()
        self._index.close()
