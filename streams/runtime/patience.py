"""A bound on calls that promise to return in time and do not."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread


def within(seconds: float, call: Callable[[], object]) -> None:
    """``call`` in a thread of its own, which is left behind where it does not return: a daemon, it keeps no process.

    What the call holds it may hold for ever: it must not be used again. Raises TimeoutError, or what ``call`` raises.
    """
    answers: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as error:
            answers.put(error)
        else:
            answers.put(None)

    Thread(target=run, daemon=True).start()
    try:
        error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if error is not None:
        raise error
