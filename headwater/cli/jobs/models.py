"""``headwater jobs models``: what can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from headwater.cli import frame, output
from headwater.cli.frame import AsJson


def models(context: typer.Context, as_json: AsJson = False) -> None:
    """Show which models there are, and what each takes."""
    found = frame.of(context).client.models()
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say(output.console(), "No model: none is offered before a worker that has it registers.")
        return
    columns = ("model", "sizes", "longest", "input", "parameters")
    output.console().print(output.table(columns, map(_row, found)))


def _row(model: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        model["id"],
        ", ".join(model["sizes"]),
        f"{model['max_seconds']} s",
        model["input"],
        ", ".join(model["parameters"].get("properties", {})),
    )
