"""``headwater dataset``: the versions of a dataset."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Make versions, compare them, prove them, take them out.")
