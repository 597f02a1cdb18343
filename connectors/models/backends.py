"""The back ends by name, and one of them built from what its settings say."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headwater.connectors.models.command import Command, CommandConfig
from headwater.connectors.models.http import Http, HttpConfig
from headwater.connectors.models.noop import Noop, NoopConfig
from headwater.connectors.models.protocol import Model
from headwater.connectors.models.testcard.model import Testcard, TestcardConfig
from headwater.rules.errors import BadSettings

BACKENDS: dict[str, tuple[type[Any], Callable[[Any], Model]]] = {
    "testcard": (TestcardConfig, Testcard),
    "http": (HttpConfig, Http),
    "command": (CommandConfig, Command),
    "noop": (NoopConfig, Noop),
}
"""By the name that ``--model`` takes: its settings, and what makes it of them."""


def build(name: str, options: Mapping[str, Any]) -> Model:
    """The back end ``name`` with these settings. Nothing is loaded or connected yet.

    Raises BadSettings, which names what is wrong and what would be right.
    """
    if name not in BACKENDS:
        raise BadSettings(
            f"there is no model back end {name!r}.",
            asked=_ASKED,
            advice=f"Choose one of {', '.join(sorted(BACKENDS))}.",
        )
    noun, made_of = BACKENDS[name]
    known = [field.name for field in dataclasses.fields(noun)]
    for unknown in options.keys() - set(known):
        near = difflib.get_close_matches(unknown, known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(known)}."
        raise BadSettings(f"the model back end {name} has no option {unknown!r}.", asked=_ASKED, advice=hint)
    try:
        return made_of(TypeAdapter(noun).validate_python(dict(options)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadSettings(
            f"option {where or '(all)'} of the model back end {name} is wrong: {first['msg']}.",
            asked=_ASKED,
            advice="Correct it among the worker's options.",
        ) from error


_ASKED = "A model back end was to be set up."
