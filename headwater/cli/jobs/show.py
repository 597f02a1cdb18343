"""``headwater jobs show | attempts``: all that is known of one job, and of each time that it was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text

_STYLES = {"completed": "green", "failed": "red", "lease_lost": "red"}


def show(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Show a job: its state, its place, what it was asked."""
    client = frame.of(context).client
    video = client.get(job)
    if as_json:
        output.print_json(video)
        return
    console = output.console()
    console.print(text.line(video), soft_wrap=True)
    _print_pairs(console, text.details(video))
    if tried := client.attempts(job):
        console.print()
        _print_attempts(console, tried)


def attempts(
    context: typer.Context,
    job: text.Job,
    log: Annotated[bool, typer.Option("--log", help="With the end of what each model's process said.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show each attempt at a job, and why it ended."""
    found = frame.of(context).client.attempts(job)
    if as_json:
        output.print_json(found)
        return
    console = output.console()
    if not found:
        output.say(console, "No worker had it yet.")
        return
    _print_attempts(console, found)
    for attempt in found if log else ():
        if attempt["log_tail"]:
            console.print(Text(f"\nattempt {attempt['attempt']}", style="bold"))
            console.print(Text(attempt["log_tail"].rstrip(), style="dim"), soft_wrap=True)


def _print_pairs(console: Console, pairs: Any) -> None:
    for name, value in pairs:
        console.print(Text(f"{name:>12}  ", style="dim").append(value, style="not dim"), soft_wrap=True)


def _print_attempts(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    columns = ("attempt", "granted", "outcome", "steps", "resumed at", "GPU s", "")
    console.print(output.table(columns, map(_row, found), right=("attempt", "steps", "resumed at", "GPU s")))


def _row(attempt: Mapping[str, Any]) -> tuple[str | Text, ...]:
    outcome = attempt["outcome"] or "under way"
    said = ": ".join(part for part in (attempt["code"], attempt["message"]) if part)
    return (
        str(attempt["attempt"]),
        text.moment(attempt["granted_at"]),
        Text(outcome, style=_STYLES.get(outcome, "yellow")),
        _steps(attempt),
        "" if attempt["resumed_step"] is None else str(attempt["resumed_step"]),
        "" if attempt["gpu_seconds"] is None else f"{attempt['gpu_seconds']:,.1f}",
        said,
    )


def _steps(attempt: Mapping[str, Any]) -> str:
    """As its last beat told; what was completed went on from there to its end."""
    if not attempt["steps"] or attempt["outcome"] == "completed":
        return str(attempt["steps"] or "")
    return f"{attempt['step']} of {attempt['steps']}"
