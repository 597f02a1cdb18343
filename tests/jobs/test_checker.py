"""The checker on forged histories: each broken promise is found and named, and a run that kept them all is not."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from jobs import checker
from jobs.checker import KINDS, judge
from jobs.evidence import Evidence
from jobs.forged import FORGERIES, SOUND, Forgery, caught, checker_catches_forged


def test_a_history_that_kept_every_promise_is_not_blamed() -> None:
    assert judge(SOUND) == []
    assert judge(Evidence()) == []


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
def test_a_broken_promise_is_found(forgery: Forgery) -> None:
    assert caught(forgery), judge(forgery.evidence)


def test_every_kind_is_forged() -> None:
    assert {forgery.kind for forgery in FORGERIES} == set(KINDS)
    assert checker_catches_forged()


def test_every_finding_that_the_checker_knows_is_forged() -> None:
    """Each place in the checker that yields a finding is reached by a forgery: none of them is there for show."""
    places = {node.lineno for node in ast.walk(ast.parse(inspect.getsource(checker))) if isinstance(node, ast.Yield)}
    reached = _lines_reached()
    lines = Path(checker.__file__).read_text("utf-8").splitlines()
    assert len(places) > 40
    assert not (places - reached), [lines[number - 1].strip() for number in sorted(places - reached)]


def _lines_reached() -> set[int]:
    """The lines of the checker that run while it judges all forgeries."""
    reached: set[int] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != checker.__file__:
            return None
        if event == "line":
            reached.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for forgery in FORGERIES:
            judge(forgery.evidence)
    finally:
        sys.settrace(before)
    return reached
