"""A thread that makes one call at a time for another thread, which may wait as long as it likes, or no longer."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Outcome(NamedTuple, Generic[T]):
    result: T | None
    error: BaseException | None

    def get(self) -> T | None:
        """What the call returned. Raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.result


class Worker(Generic[T]):
    """``start`` a call, then ``wait`` for its outcome, before the next. A daemon: a call that hangs for ever does not
    keep a process that was told to end. Used from one other thread."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome[T]] = SimpleQueue()
        self._busy = False
        Thread(target=self._work, name=name, daemon=True).start()

    def is_busy(self) -> bool:
        return self._busy

    def start(self, call: Callable[[], T]) -> None:
        """Returns at once."""
        assert not self._busy, "one call at a time"
        self._busy = True
        self._calls.put(call)

    def wait(self, seconds: float) -> Outcome[T] | None:
        """The outcome of the call that was started, or None if it still runs after ``seconds``."""
        try:
            outcome = self._outcomes.get(timeout=seconds)
        except Empty:
            return None
        self._busy = False
        return outcome

    def close(self) -> None:
        """Ends the thread once its call has ended; does not wait for that."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                outcome = Outcome(call(), None)
            except BaseException as error:  # the other thread decides what it means
                outcome = Outcome(None, error)
            del call  # whatever it holds may go before the next one comes
            self._outcomes.put(outcome)
            del outcome
