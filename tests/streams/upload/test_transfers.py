from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.errors import Unavailable
from headwater.streams.upload.transfers import Transfers


def always() -> bool:
    return True


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    transfers = Transfers("test", at_once=4, bytes_at_once=100)
    yield transfers
    transfers.close()


def test_results_come_in_the_order_of_the_items(transfers: Transfers) -> None:
    def slowest_first(number: int) -> int:
        time.sleep((10 - number) / 1000)
        return number * 2

    finished = transfers.run(range(10), slowest_first, size=lambda _: 1, go_on=always)
    assert finished.results == tuple(range(0, 20, 2))
    assert finished.failure is None


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 250), max_size=40))
def test_never_more_at_once_than_was_asked_and_nothing_is_left_out(sizes: list[int]) -> None:
    transfers = Transfers("test", at_once=4, bytes_at_once=100)
    lock = threading.Lock()
    now: list[int] = []
    seen: list[tuple[int, int]] = []

    def work(size: int) -> int:
        with lock:
            now.append(min(size, 100))
            seen.append((len(now), sum(now)))
        time.sleep(0.0005)
        with lock:
            now.remove(min(size, 100))
        return size

    finished = transfers.run(sizes, work, size=lambda size: size, go_on=always)
    transfers.close()
    assert finished.results == tuple(sizes)
    assert all(count <= 4 for count, _ in seen)
    assert all(total <= 100 for _, total in seen), "what is larger than the room gets all of it"


def test_after_a_failure_nothing_more_begins_and_what_is_done_is_kept(transfers: Transfers) -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise Unavailable("S3 is down.")
        time.sleep(0.002)
        return number

    finished = transfers.run(range(1000), work, size=lambda _: 30, go_on=always)
    assert isinstance(finished.failure, Unavailable)
    assert {0, 1, 2} <= set(finished.results)
    assert len(begun) < 20
    again = transfers.run(range(3), lambda number: number, size=lambda _: 100, go_on=always)
    assert again.results == (0, 1, 2), "the room of what failed was given back"


def test_what_waits_for_a_thread_when_nothing_more_may_begin_is_left_out(transfers: Transfers) -> None:
    begun: list[int] = []
    submitted, over = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(40)
        submitted.set()

    def work(number: int) -> int:
        begun.append(number)
        assert submitted.wait(10), "the first four hold the threads until all others wait for one"
        over.set()
        return number

    finished = transfers.run(items(), work, size=lambda _: 0, go_on=lambda: not over.is_set())
    assert sorted(begun) == [0, 1, 2, 3]
    assert finished.results == (0, 1, 2, 3)
    assert finished.failure is None


def test_a_defect_is_raised_after_everything_came_to_rest(transfers: Transfers) -> None:
    begun, resting = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number == 0:
            begun.wait(10)
            raise ZeroDivisionError
        begun.set()
        time.sleep(0.05)
        resting.set()

    with pytest.raises(ZeroDivisionError):
        transfers.run(range(2), work, size=lambda _: 1, go_on=always)
    assert resting.is_set()


def test_nothing_begins_once_it_must_not_go_on(transfers: Transfers) -> None:
    finished = transfers.run(range(10), lambda number: number, size=lambda _: 1, go_on=lambda: False)
    assert finished.results == ()
    assert finished.failure is None
