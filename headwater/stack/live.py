"""The live view of a long step: one line a program, what it does now, for how long, and how long that usually takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from headwater.stack.progress import Report, Step


@contextmanager
def live(console: Console) -> Iterator[Report]:
    """A report that draws on ``console``; without a terminal it prints one line per finished step instead."""
    if not console.is_terminal:
        yield lambda step: _print_finished(console, step)
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield _Lines(progress)


class _Lines:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._lock = Lock()  # steps are reported from the threads that build in parallel

    def __call__(self, step: Step) -> None:
        with self._lock:
            key = (step.program, step.action)
            if key not in self._tasks:
                self._tasks[key] = self._progress.add_task(_describe(step), total=1)
            if step.seconds is not None:
                self._progress.update(self._tasks[key], completed=1)


def _describe(step: Step) -> str:
    return f"{step.program:<10}{step.action} (about {step.estimate_seconds:.0f} s)"


def _print_finished(console: Console, step: Step) -> None:
    if step.seconds is not None:
        console.print(f"{step.program:<10}{step.action}: {step.seconds:.1f} s")
    elif step.estimate_seconds >= 10:
        console.print(f"{_describe(step)} …")
