"""Work on many items at once, with a bound on how many and on how many bytes of them are in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.rules.errors import HeadwaterError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """What was done, in the order of the items, and the first failure. Items after a failure may be left out."""

    results: tuple[Result, ...]
    failure: HeadwaterError | None


class Transfers:
    """A pool of threads for reads and requests that release the GIL. Callers share it, first come first served."""

    def __init__(self, name: str, *, at_once: int, bytes_at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._room = _Room(bytes_at_once)

    def run(
        self,
        items: Iterable[Item],
        work: Callable[[Item], Result],
        *,
        size: Callable[[Item], int],
        go_on: Callable[[], bool],
    ) -> Finished[Result]:
        """``work`` on each item. After a HeadwaterError, or once ``go_on`` is false, nothing more begins; what is
        under way is waited for, so that the caller can record what is finished. ``size`` is what an item holds in
        memory while it is worked on.
        """
        failed = threading.Event()
        running: list[Future[Result]] = []

        def one(item: Item, reserved: int) -> Result:
            try:
                if failed.is_set() or not go_on():
                    raise _LeftOut
                return work(item)
            except _LeftOut:
                raise
            except BaseException:
                failed.set()
                raise
            finally:
                self._room.give_back(reserved)

        for item in items:
            reserved = self._room.take(size(item))
            if failed.is_set() or not go_on():
                self._room.give_back(reserved)
                break
            running.append(self._threads.submit(one, item, reserved))
        return _collected(running)

    def close(self) -> None:
        self._threads.shutdown()


class _LeftOut(Exception):
    """The item waited for a thread, and meanwhile nothing more was to begin."""


def _collected(running: Iterable[Future[Result]]) -> Finished[Result]:
    results: list[Result] = []
    failure: HeadwaterError | None = None
    defect: BaseException | None = None
    for future in running:
        try:
            results.append(future.result())
        except _LeftOut:
            continue
        except HeadwaterError as error:
            failure = failure or error
        except Exception as error:  # a defect of ours: raised once nothing is under way any more
            defect = defect or error
    if defect is not None:
        raise defect
    return Finished(tuple(results), failure)


class _Room:
    """A count of bytes that threads take from and give back to."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit
        self._changed = threading.Condition()

    def take(self, wanted: int) -> int:
        """Waits until there is room. What is larger than the whole room gets all of it, alone."""
        taken = min(wanted, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        return taken

    def give_back(self, taken: int) -> None:
        with self._changed:
            self._free += taken
            self._changed.notify()
