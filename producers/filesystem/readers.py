"""Threads that read files: a few for the many small ones, one more for large ones; neither holds up the other.

Where a source has rules of its own for what is complete, other threads ask first, and hand on what is.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue

from headwater.producers.filesystem.complete import Completeness
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.read import Changed, Content, Incomplete, Outcome, read_path
from headwater.producers.filesystem.settle import Candidate
from headwater.producers.filesystem.tree import Signature, Tree
from headwater.rules.chunking import WHOLE_BYTES

_WAITING_PER_THREAD = 100
"""Small files that wait per thread: enough to keep it busy between two turns of the agent's loop."""


class Readers:
    """``submit`` and ``finished`` are the agent's; ``wake`` is called from a reading thread after each outcome."""

    def __init__(self, config: AgentConfig, tree: Tree, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._config = config
        self._tree = tree
        self._clock = clock
        self._wake = wake
        self._small = ThreadPoolExecutor(config.read_threads, thread_name_prefix="read")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="read-large")
        self._completeness = Completeness(config, tree)
        self._asking = ThreadPoolExecutor(config.complete_probes, thread_name_prefix="complete")
        self._outcomes: SimpleQueue[Future[Outcome]] = SimpleQueue()
        self.busy = 0

    @property
    def room(self) -> int:
        """How many more paths may be submitted now."""
        return max(0, self._config.read_threads * _WAITING_PER_THREAD - self.busy)

    def submit(self, candidate: Candidate, known: dict[Signature, Content]) -> None:
        self.busy += 1
        if self._completeness.asks:
            self._asking.submit(self._ask, candidate).add_done_callback(lambda asked: self._asked(asked, known))
        else:
            self._read(candidate, known)

    def _read(self, candidate: Candidate, known: dict[Signature, Content]) -> None:
        large = candidate.observation is not None and candidate.observation.signature.size > WHOLE_BYTES
        pool = self._large if large else self._small
        future = pool.submit(read_path, self._tree, candidate, known, self._config, self._clock)
        future.add_done_callback(self._done)

    def _ask(self, candidate: Candidate) -> Outcome:
        """In a thread that asks: the path is incomplete, or is to be read (``Changed``)."""
        reason = self._completeness.trouble(candidate.path)
        return Changed(candidate) if reason is None else Incomplete(candidate, reason)

    def _asked(self, asked: Future[Outcome], known: dict[Signature, Content]) -> None:
        if not asked.cancelled() and asked.exception() is None and isinstance(outcome := asked.result(), Changed):
            self._read(outcome.candidate, known)
        else:
            self._done(asked)

    def _done(self, future: Future[Outcome]) -> None:
        self._outcomes.put(future)
        self._wake()

    def finished(self, limit: int) -> list[Outcome]:
        """What was read since the last call, without waiting."""
        outcomes: list[Outcome] = []
        while len(outcomes) < limit:
            try:
                future = self._outcomes.get_nowait()
            except Empty:
                break
            self.busy -= 1
            outcomes.append(future.result())
        return outcomes

    def close(self) -> None:
        """What is not begun is dropped; what is being read is read to its end, and dropped as well."""
        self._completeness.close()
        for pool in (self._asking, self._small, self._large):
            pool.shutdown(wait=True, cancel_futures=True)
