"""``headwater demo``: the whole river in a few minutes, on real media."""

from __future__ import annotations

import typer


def demo() -> None:
    """Show all of it in minutes, on real media."""
    raise typer.Exit(1)
