"""Between settling and recording: who is read next, and what becomes of each outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headwater.observe import metrics
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.notice import Notice
from headwater.producers.filesystem.read import Content, Incomplete, Outcome, Reading, Unreadable, Unsettled
from headwater.producers.filesystem.readers import Readers
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.settle import Candidate, Settling
from headwater.producers.filesystem.tree import Signature, Tree

_INCOMPLETE_RETRIES = 6
"""An incomplete file is looked at again this many times more seldom than a busy one: there may be many, for long."""


class Intake:
    """Called from the agent's thread only."""

    def __init__(
        self,
        config: AgentConfig,
        tree: Tree,
        index: Index,
        settling: Settling,
        readers: Readers,
        notice: Notice,
        recorder: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._tree = tree
        self._index = index
        self._settling = settling
        self._readers = readers
        self._notice = notice
        self._recorder = recorder
        self._clock = clock

    def hand_out(self) -> bool:
        """Give what is due to the reading threads, as far as they have room. True: there was something."""
        taken = self._settling.take(self._clock(), self._readers.room)
        if taken:
            with self._index.transaction():
                for candidate in taken:
                    self._readers.submit(candidate, self._known_contents(candidate))
        return bool(taken)

    def _known_contents(self, candidate: Candidate) -> dict[Signature, Content]:
        """Content that was read under another name: a moved directory or a second hard link costs no read.

        A write through one hard link makes no event for the others: those that the write outdated are looked at too.
        """
        if candidate.observation is None:
            return {}
        signature = candidate.observation.signature
        others = [known for known in self._index.files.with_inode(signature) if known.hash is not None]
        for known in others:
            if known.path != candidate.path and known.signature != signature and known.path not in self._settling:
                self._notice.look(known.path)
        if candidate.forced:
            return {}
        return {known.signature: Content(known.hash, known.parts, None) for known in others if known.hash is not None}

    def take_in(self, limit: int) -> bool:
        """Record, name or postpone what was read, in one transaction. True: there was something."""
        outcomes = self._readers.finished(limit)
        if outcomes:
            with self._index.transaction():
                for outcome in outcomes:
                    self._judge(outcome)
        return bool(outcomes)

    def _judge(self, outcome: Outcome) -> None:
        path = outcome.candidate.path
        if isinstance(outcome, Unsettled):
            self._wait_longer(outcome)
            return
        self._settling.done(path, self._clock())
        # A path that went away since it was read had no row then, so nobody would miss the row that it gets now.
        if isinstance(outcome, Reading) and not self._tree.is_gone(path):
            self._recorder.record(outcome)
            if outcome.content is not None and outcome.content.parts is not None:
                metrics.AGENT_READ_BYTES.labels(self._config.source).inc(outcome.signature.size)
        elif isinstance(outcome, Incomplete):
            again = _INCOMPLETE_RETRIES * self._config.retry_seconds
            self._recorder.except_path(path, outcome.reason, retry_seconds=again)
        elif isinstance(outcome, Unreadable):
            self._recorder.except_path(path, outcome.reason)
        else:
            self._notice.look(path)

    def _wait_longer(self, outcome: Unsettled) -> None:
        """Look again soon; after a while name the path, and look again now and then."""
        candidate, now = outcome.candidate, self._clock()
        if now - candidate.since >= self._config.busy_seconds:
            self._recorder.except_path(candidate.path, outcome.reason)
            self._settling.done(candidate.path, now)
            return
        named = self._index.exceptions.reason(candidate.path) is not None
        self._settling.postpone(replace(candidate, named=named), outcome.due_at)
