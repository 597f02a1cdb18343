"""``headwater cast``: one file to a thousand hosts."""

from __future__ import annotations

import typer

from headwater.cli.cast import analyze

app = typer.Typer(no_args_is_help=True, help="Send one file to many hosts, from each to each.")

_PLAN = "Think before"
app.command("analyze", rich_help_panel=_PLAN)(analyze.analyze)
