"""``headwater jobs``: a tenant's generation jobs, by the HTTP service."""

from __future__ import annotations

import typer

from headwater.cli.default import meaning
from headwater.cli.jobs import control, download, listing, models, show, submit, watch, webhooks

app = typer.Typer(cls=meaning("list"), help="Have videos made, and see how they are.")

_ASK, _LOOK, _CONTROL = "Ask for one", "See how it goes", "Have a word with it"
app.command("submit", rich_help_panel=_ASK)(submit.submit)
app.command("models", rich_help_panel=_ASK)(models.models)
app.command("redrive", rich_help_panel=_ASK)(control.redrive)
app.command("list", rich_help_panel=_LOOK)(listing.list_jobs)
app.command("show", rich_help_panel=_LOOK)(show.show)
app.command("watch", rich_help_panel=_LOOK)(watch.watch)
app.command("attempts", rich_help_panel=_LOOK)(show.attempts)
app.command("download", rich_help_panel=_LOOK)(download.download)
app.command("webhooks", rich_help_panel=_LOOK)(webhooks.webhooks)
app.command("cancel", rich_help_panel=_CONTROL)(control.cancel)
app.command("delete", rich_help_panel=_CONTROL)(control.delete)
app.command("undelete", rich_help_panel=_CONTROL)(control.undelete)
