"""``headwater progress``: how far each source and each dataset has come."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson

if TYPE_CHECKING:
    from headwater.connectors.catalog.progress import Amount, Progress, SourceProgress

_SILENT_SECONDS = 15.0
"""An agent that lives says so every 5 s."""
_RATE_SECONDS = 10.0

Measured = deque[tuple[float, "Progress"]]
"""The last few measurements, each with its time (monotonic seconds)."""


def progress(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="Between two measurements.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show what was found, sent, verified and committed.

    Live on a terminal, until Ctrl-C. From counters that are kept with every state change, so it costs the catalog
    nothing however many files there are.
    """
    measured: Measured = deque()
    _measure(context, measured)
    if as_json:
        output.print_json(measured[-1][1])
        return
    console = output.console()
    if once or not sys.stdout.isatty():
        console.print(_shown(measured))
        return
    with Live(_shown(measured), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            _measure(context, measured)
            live.update(_shown(measured), refresh=True)


def _measure(context: typer.Context, measured: Measured) -> None:
    from headwater.connectors.catalog import progress as catalog

    with frame.of(context).catalog.transaction() as transaction:
        measured.append((time.monotonic(), catalog.progress(transaction)))
    while measured[-1][0] - measured[0][0] > _RATE_SECONDS:
        measured.popleft()


def _shown(measured: Measured) -> Group | Text:
    now = measured[-1][1]
    if not now.sources and not now.datasets:
        return Text("No source yet: start an agent with `headwater sync FOLDER --source NAME`.")
    rows = [row for source in now.sources for row in _rows(measured, source)]
    columns = ("source", "", "number", "size", "a second", " ")
    sources = output.table(columns, rows, right=("number", "size", "a second"))
    versions = [
        (
            dataset.dataset,
            f"v{dataset.version}" if dataset.version else "none",
            dataset.published_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if dataset.published_at else "",
            f"{dataset.files:,}",
            output.size(dataset.bytes),
            f"{dataset.uncommitted:,}",
        )
        for dataset in now.datasets
    ]
    titles = ("dataset", "version", "published", "files", "size", "changes since")
    return Group(sources, Text(), output.table(titles, versions, right=titles[3:]))


def _rows(measured: Measured, source: SourceProgress) -> Iterator[tuple[str | Text, ...]]:
    """One row a stage; what is on the way to a stage stands beside it."""
    stages = {"found": source.found, "sent": source.stored, "verified": source.verified}
    waiting = {"sent": _between(source.claimed, source.stored), "verified": _between(source.stored, source.verified)}
    for stage, amount in stages.items():
        remark = _agent(source) if stage == "found" else _waits(waiting[stage])
        name = source.source if stage == "found" else ""
        yield name, stage, f"{amount.count:,}", output.size(amount.bytes), _rate(measured, source.source, stage), remark
    if trouble := _trouble(source):
        yield "", "", "", "", "", trouble


def _between(reached: Amount, passed: Amount) -> tuple[int, int]:
    return reached.count - passed.count, reached.bytes - passed.bytes


def _waits(amount: tuple[int, int]) -> str:
    return f"{amount[0]:,} on the way, {output.size(amount[1])}" if amount[0] else ""


def _agent(source: SourceProgress) -> Text:
    if source.silent_seconds is None:
        return Text("agent stopped", style="yellow")
    if source.silent_seconds > _SILENT_SECONDS:
        return Text(f"agent silent for {output.duration(source.silent_seconds)}", style="red")
    return Text("agent runs", style="green")


def _rate(measured: Measured, source: str, stage: str) -> str:
    """Bytes that reached the stage, a second, over the last few seconds."""
    (began, first), (ended, last) = measured[0], measured[-1]
    gained = _bytes(last, source, stage) - _bytes(first, source, stage)
    return f"{output.size(gained / (ended - began))}/s" if ended > began and gained > 0 else ""


def _bytes(progress: Progress, source: str, stage: str) -> int:
    for found in progress.sources:
        if found.source == source:
            return {"found": found.found, "sent": found.stored, "verified": found.verified}[stage].bytes
    return 0


def _trouble(source: SourceProgress) -> Text | None:
    said = [f"deletes halted: {source.halted}"] if source.halted else []
    if source.put_off:
        said.append(output.put_off(source.put_off))
    if source.exceptions:
        classes = ", ".join(f"{count:,} {name}" for name, count in source.exceptions_by.items())
        said.append(f"not carried now: {classes}; for example {source.example}")
    if source.weak:
        said.append(f"{source.weak:,} files weakly guaranteed")
    if source.condemned:
        said.append(f"{source.condemned:,} contents condemned")
    return Text("\n".join(said), style="yellow") if said else None
