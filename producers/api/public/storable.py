"""JSON that the catalog can keep: PostgreSQL has no NUL and no lone surrogate in text, and no infinite number."""

from __future__ import annotations

import math
from typing import Any

from pydantic_core import PydanticCustomError

DEEPEST = 16
"""Far more than any model's parameters need, far less than what exhausts a stack."""
LARGEST_INTEGER = 2**63 - 1


def storable(value: Any) -> Any:
    """The value as it is. Raises a validation error that says where in it something cannot be kept."""
    _check(value, "", 0)
    return value


def _check(value: Any, at: str, depth: int) -> None:
    if depth > DEEPEST:
        raise _error(at, f"is nested deeper than {DEEPEST}")
    if isinstance(value, str):
        _check_text(value, at)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_text(name, at)
            _check(item, f"{at}/{name}", depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check(item, f"{at}/{number}", depth + 1)
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise _error(at, "is an integer of more than 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _error(at, "is no finite number")


def _check_text(text: str, at: str) -> None:
    if "\0" in text:
        raise _error(at, "holds a NUL character")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _error(at, "holds half of a surrogate pair")


def _error(at: str, why: str) -> PydanticCustomError:
    return PydanticCustomError("not_storable", "{at} {why}", {"at": at or "The value", "why": why})
