"""How a long step tells the person who waits what it is doing and how long it usually takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one program: ``seconds`` is None while it runs, and its duration once it is done."""

    program: str
    action: str
    estimate_seconds: float
    seconds: float | None = None


Report = Callable[[Step], None]


def silent(_step: Step) -> None:
    """A report for callers that show nothing."""


@contextmanager
def step(report: Report, program: str, action: str, estimate_seconds: float) -> Iterator[None]:
    """Reports the start of a step, and its end if it ended well."""
    began = time.monotonic()
    report(Step(program, action, estimate_seconds))
    yield
    report(Step(program, action, estimate_seconds, seconds=time.monotonic() - began))
