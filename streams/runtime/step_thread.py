"""The one thread that a member's steps run in, so that its consumer thread can keep its place in the group."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from headwater.streams.runtime.batch import Reading
from headwater.streams.runtime.step import Finished, Released, Step


class Outcome(NamedTuple):
    finished: Finished | None
    error: BaseException | None

    def get(self) -> Finished | None:
        """The result, or None where the batch was released. Raises what the step raised."""
        if self.error is not None and not isinstance(self.error, Released):
            raise self.error
        return self.finished


class StepThread:
    """``start`` one step, then ``wait`` for its outcome, before the next. A daemon: a step that hangs for ever does not
    keep a process that was told to end. Used from one other thread."""

    def __init__(self, step: Step, name: str) -> None:
        self._step = step
        self._readings: SimpleQueue[Reading | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._busy = False
        Thread(target=self._work, name=name, daemon=True).start()

    def is_busy(self) -> bool:
        return self._busy

    def start(self, reading: Reading) -> None:
        """Returns at once."""
        assert not self._busy, "one step at a time"
        self._busy = True
        self._readings.put(reading)

    def wait(self, seconds: float) -> Outcome | None:
        """The outcome of the step that was started, or None if it still runs after ``seconds``."""
        try:
            outcome = self._outcomes.get(timeout=seconds)
        except Empty:
            return None
        self._busy = False
        return outcome

    def close(self) -> None:
        """Ends the thread once its step has ended; does not wait for that."""
        self._readings.put(None)

    def _work(self) -> None:
        while (reading := self._readings.get()) is not None:
            try:
                outcome = Outcome(self._step.run(reading), None)
            except BaseException as error:  # the consumer thread decides what it means
                outcome = Outcome(None, error)
            self._outcomes.put(outcome)
