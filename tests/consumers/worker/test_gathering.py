"""Requests that are gathered: at once when idle, together when busy, again when unanswered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headwater.consumers.worker.gathering import Gathering
from headwater.rules.errors import Refused, Unavailable


@contextmanager
def gathering(**given: Any) -> Iterator[Gathering[Any]]:
    defaults = {"wanted": lambda _: True, "fail": lambda _: None}
    running: Gathering[Any] = Gathering("test", **(defaults | given))
    running.start()
    try:
        yield running
    finally:
        running.close()


def test_what_comes_up_while_a_request_is_under_way_goes_with_the_next(eventually: Callable[..., object]) -> None:
    asked: list[list[int]] = []
    answer = threading.Event()

    def ask(items: list[int]) -> None:
        asked.append(list(items))
        if len(asked) == 1:
            answer.wait(10)

    with gathering(ask=ask) as running:
        running.put(1)
        eventually(lambda: asked == [[1]])
        for item in (2, 3, 4):
            running.put(item)
        answer.set()
        eventually(lambda: asked == [[1], [2, 3, 4]])


def test_what_was_not_answered_is_asked_again_with_what_came_since_while_it_is_wanted(
    eventually: Callable[..., object],
) -> None:
    asked: list[list[int]] = []
    given_up: set[int] = set()

    def ask(items: list[int]) -> None:
        asked.append(sorted(items))
        if len(asked) < 3:
            raise Unavailable("no answer")

    with gathering(ask=ask, wanted=lambda item: item not in given_up) as running:
        running.put(1)
        running.put(2)
        eventually(lambda: len(asked) >= 1 and 1 in asked[-1])
        given_up.add(2)
        running.put(3)
        eventually(lambda: len(asked) >= 3 and asked[-1] == [1, 3])


def test_items_of_two_types_are_two_requests(eventually: Callable[..., object]) -> None:
    asked: list[list[object]] = []
    first = threading.Event()

    def ask(items: list[object]) -> None:
        asked.append(items)
        first.wait(10)

    with gathering(ask=ask) as running:
        running.put(1)
        eventually(lambda: len(asked) == 1)
        for item in (2, "a", 3, "b"):
            running.put(item)
        first.set()
        eventually(lambda: len(asked) == 3)
    assert sorted(map(str, asked[1:])) == ["['a', 'b']", "[2, 3]"]


def test_a_refusal_is_told_and_not_asked_again(eventually: Callable[..., object]) -> None:
    failures: list[Exception] = []
    asked: list[int] = []

    def ask(items: list[int]) -> None:
        asked.extend(items)
        if 1 in items:
            raise Refused("no")

    with gathering(ask=ask, fail=failures.append) as running:
        running.put(1)
        eventually(lambda: len(failures) == 1)
        running.put(2)
        eventually(lambda: asked == [1, 2])
