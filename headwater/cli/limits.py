"""Limits as people type them: a number, or none to lift it."""

from __future__ import annotations

import typer

NONE = "none"


class Lifted:
    """``none`` was typed: not the same as nothing."""


LIFTED = Lifted()


def whole(text: str) -> int | Lifted:
    """A whole number above nothing, or none."""
    number = positive(text)
    if isinstance(number, Lifted):
        return number
    if number != int(number):
        raise typer.BadParameter(f"{text!r} is no whole number.")
    return int(number)


def positive(text: str) -> float | Lifted:
    """A number above nothing, or none."""
    if text == NONE:
        return LIFTED
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise typer.BadParameter(f"{text!r} is no number above 0; {NONE} lifts the limit.")
    return number


def stored(value: float | Lifted) -> float | None:
    """As the catalog has it."""
    return None if isinstance(value, Lifted) else value
