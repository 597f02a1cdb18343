"""``headwater sync``: the agent of one source."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson, Frame
from headwater.rules.identity import display

if TYPE_CHECKING:
    from headwater.producers.filesystem.agent import Agent
    from headwater.producers.filesystem.config import AgentConfig
    from headwater.producers.filesystem.status import AgentStatus

_ACTIONS = {
    "new": "would be sent",
    "read": "changed, or perhaps: would be read",
    "missing": "gone: would be deleted after the hold",
    "excluded": "left out by the filters",
    "special": "cannot be carried",
    "unreadable": "cannot be read",
}


def sync(
    context: typer.Context,
    root: Annotated[Path, typer.Argument(help="The folder to carry.")],
    source: Annotated[str, typer.Option(help="Name of the source, for ever: it names its files in the dataset.")],
    dataset: Annotated[str | None, typer.Option(help="The dataset that it feeds. Default: the setting.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when every path is verified, or named as an exception.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence another agent of this source that lives and cannot be stopped.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a folder: each settled change goes to the log.

    Runs until Ctrl-C; a restart goes on from its index. Files are read only when they are quiet and nobody has them
    open for writing. With --once, exit code 3 means: done, but for paths that were named. --json prints the agent's
    state at the end, and makes the log JSON.
    """
    the = frame.of(context)
    config = _config(the, root, source, dataset)
    if dry_run:
        _dry_run(config, as_json=as_json)
        return
    from headwater.cli.service import serving, speaking
    from headwater.observe.http import Health
    from headwater.producers.filesystem.agent import Agent
    from headwater.schemas.records import Stage

    agent = Agent(config, the.kafka, the.catalog)

    def health() -> Health:
        status = agent.status
        reason = status.halted or status.deletes_halted or status.trouble or ""
        state = "halted" if status.halted else "degraded" if reason else "running"
        return Health(not reason, state, reason, status.as_json())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    name = f"agent-{source}"
    with (
        _view(the, agent, as_json=as_json),
        serving(the.settings, name, health),
        speaking(the.kafka, name, Stage.found, health),
    ):
        status = agent.run(once=once, take_over=take_over)
    if as_json:
        output.print_json(status.as_json(), lines=True)
    if once:
        raise typer.Exit(status.exit_code)


def _config(the: Frame, root: Path, source: str, dataset: str | None) -> AgentConfig:
    """The source's settings, or those of a source without any; the command line names root and dataset."""
    configured = the.settings.source(source, root)
    return replace(configured, dataset=dataset) if dataset else configured


def _dry_run(config: AgentConfig, *, as_json: bool) -> None:
    from headwater.producers.filesystem.dry_run import dry_run

    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    console = output.console()
    for planned in dry_run(config):
        counts[planned.action] += 1
        sizes[planned.action] += planned.size
        if as_json:
            output.print_json(planned, lines=True)
        else:
            line = Text(f"{planned.action:<10} ", style="cyan").append(display(planned.path), style="not cyan")
            console.print(line.append(f"  {planned.detail}" if planned.detail else "", style="dim"), soft_wrap=True)
    if not as_json:
        rows = [
            (name, f"{counts[name]:,}", output.size(sizes[name]), meaning)
            for name, meaning in _ACTIONS.items()
            if counts[name]
        ]
        console.print(
            output.table(("", "paths", "bytes", ""), rows, right=("paths", "bytes")) if rows else "Nothing to do."
        )


def _view(the: Frame, agent: Agent, *, as_json: bool) -> AbstractContextManager[Any]:
    """A live line on a terminal; elsewhere the log tells."""
    if as_json or not sys.stdout.isatty():
        the.log_as_a_service(as_json=True if as_json else None)
        return nullcontext()
    return Live(get_renderable=lambda: _shown(agent.status), console=output.console(), refresh_per_second=4)


def _shown(status: AgentStatus) -> Group:
    lines = Table.grid(padding=(0, 2))
    waiting = status.dirty + status.settling + status.reading
    lines.add_row(
        Text(f"source {status.source}", style="bold"),
        f"{status.files:,} file{'' if status.files == 1 else 's'}",
        f"{waiting:,} settling or being read",
        f"{status.pending:,} on their way",
        Text(f"{status.verified:,} verified", style="green"),
        Text(f"{status.exceptions:,} excepted", style="yellow") if status.exceptions else "",
    )
    walked = "every directory listed" if status.walked else "listing directories …"
    lines.add_row(
        Text(walked, style="dim"),
        Text(f"events from {status.watch}", style="dim"),
        Text(f"{status.held:,} missing, held" if status.held else "", style="dim"),
        "",
        "",
        Text(f"{status.weak:,} weakly guaranteed", style="yellow") if status.weak else "",
    )
    if reason := status.halted or status.deletes_halted or status.trouble:
        lines.add_row(Text(reason, style="bold red"))
    return Group(lines, *(Text(f"polled: {where}", style="yellow") for where in status.polled))
