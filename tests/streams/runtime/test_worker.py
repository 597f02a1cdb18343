"""A thread that makes calls for another one."""

from __future__ import annotations

from threading import Event
from threading import enumerate as running_threads
from typing import Any

import pytest

from headwater.streams.runtime.worker import Worker


def test_calls_are_made_one_after_the_other_and_their_outcomes_are_told() -> None:
    worker: Worker[int] = Worker("counting")
    for number in range(3):
        worker.start(lambda number=number: number)  # type: ignore[misc]
        outcome = worker.wait(10)
        assert outcome is not None
        assert outcome.get() == number
    worker.start(lambda: 1 // 0)
    failed = worker.wait(10)
    assert failed is not None
    with pytest.raises(ZeroDivisionError):
        failed.get()
    assert not worker.is_busy()
    worker.close()


def test_a_call_that_hangs_is_waited_for_no_longer_than_asked_and_keeps_its_worker_busy(eventually: Any) -> None:
    released = Event()
    worker: Worker[bool] = Worker("hanging")
    worker.start(lambda: released.wait(30))
    assert worker.wait(0.01) is None
    assert worker.is_busy()

    worker.close()
    assert any(thread.name == "hanging" for thread in running_threads())
    released.set()
    eventually(lambda: all(thread.name != "hanging" for thread in running_threads()))
