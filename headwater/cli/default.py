"""Families of commands of which one is meant where none is named: `headwater topics` describes them."""

from __future__ import annotations

from typer._click import Context
from typer.core import TyperGroup


def meaning(command: str) -> type[TyperGroup]:
    """A family that means ``command``, with whatever options follow: ``headwater dead --json``."""

    class Family(TyperGroup):
        def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
            names_one = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
            return super().parse_args(ctx, args if names_one else [command, *args])

    return Family
