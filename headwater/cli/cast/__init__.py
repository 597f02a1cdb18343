"""``headwater cast``: one file to a thousand hosts."""

from __future__ import annotations

import typer

from headwater.cli.cast import analyze, control, join, listing, publish, report, simulate, watch

app = typer.Typer(no_args_is_help=True, help="Send one file to many hosts, from each to each.")

_PLAN = "Think before"
app.command("analyze", rich_help_panel=_PLAN)(analyze.analyze)
app.command("simulate", rich_help_panel=_PLAN)(simulate.simulate)

_HOSTS = "Send and receive"
app.command("publish", rich_help_panel=_HOSTS)(publish.publish)
app.command("join", rich_help_panel=_HOSTS)(join.join)

_LOOK, _CONTROL = "See how it goes", "Have a word with it"
app.command("list", rich_help_panel=_LOOK)(listing.list_casts)
app.command("watch", rich_help_panel=_LOOK)(watch.watch)
app.command("report", rich_help_panel=_LOOK)(report.report)
app.command("limit", rich_help_panel=_CONTROL)(control.limit)
app.command("abort", rich_help_panel=_CONTROL)(control.abort)
app.command("rm", rich_help_panel=_CONTROL)(control.remove)
