"""``headwater jobs webhooks``: who was told how a job ended, and telling it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text

_STYLES = {"delivered": "green", "pending": "yellow", "failed": "red"}


def webhooks(
    context: typer.Context,
    job: text.Job,
    replay: Annotated[
        str | None, typer.Option("--replay", metavar="ID", help="Send this one again, under the same id.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a job's webhooks: sent, when, and what was answered."""
    client = frame.of(context).client
    if replay is not None:
        client.replay(job, replay)
    found = client.deliveries(job)
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say(output.console(), "None: a job that has not ended, or that named no URL, has no webhook.")
        return
    columns = ("webhook", "type", "state", "attempts", "due", "answer", "to")
    output.console().print(output.table(columns, map(_row, found), right=("attempts",), whole=("webhook", "due")))


def _row(one: Mapping[str, Any]) -> tuple[str | Text, ...]:
    answer = str(one["last_status"] or "") if not one["last_error"] else one["last_error"]
    due = text.moment(one["due_at"]) if one["state"] == "pending" else ""
    state = Text(one["state"], style=_STYLES.get(one["state"], ""))
    return one["id"], one["type"], state, str(one["attempts"]), due, answer, one["url"]
