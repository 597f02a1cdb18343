"""``headwater jobs list``: a tenant's jobs, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text


def list_jobs(
    context: typer.Context,
    status: Annotated[
        list[str] | None,
        typer.Option(help="Only queued, in_progress, cancelling, completed, failed, cancelled or expired ones."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show your jobs, newest first.

    What `headwater jobs` does by itself. Deleted ones are not shown.
    """
    client = frame.of(context).client
    found: list[text.Video] = []
    after: str | None = None
    more = True
    while more and len(found) < limit:
        page = client.listed(limit=min(limit - len(found), _PAGE), after=after, status=status or ())
        found += page["data"]
        after, more = page["next"], page["has_more"]
    if as_json:
        output.print_json(found)
        return
    console = output.console()
    if not found:
        output.say(console, 'No job. Ask for a video: `headwater jobs submit "a red fox" --model testcard`.')
        return
    console.print(output.table(text.COLUMNS, map(text.row, found), whole=text.WHOLE))
    if more:
        console.print(f"There are more: --limit {2 * limit} shows them.", style="dim")


_PAGE = 100
