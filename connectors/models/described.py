"""Which model a worker runs: a back end by its own name, or a file that describes a model.

name = "wan-2.2"                    # what requests call it
backend = "command"                 # or http, testcard, noop

[options]                           # of that back end: see its config class
command = ["/opt/wan/generate", "--prompt={prompt}", "--out={output}"]

[options.capabilities]              # as in rules/jobs/capabilities.py
sizes = ["1280x720"]
…
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.connectors.models.backends import BACKENDS, build
from headwater.rules.errors import BadSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS = {"name", "backend", "options"}
_ASKED = "A model was to be set up."


@dataclass(frozen=True, slots=True)
class Described:
    """``name``: what requests call it; ``options`` go to the back end as they are, and are JSON."""

    name: str
    backend: str
    options: Mapping[str, Any]


def described(model: str, options: Mapping[str, Any]) -> Described:
    """``model`` is a back end's name or the path of a .toml file; ``options`` are taken over those of the file.

    Raises BadSettings naming what is wrong, also with the options: nothing need be started to learn it.
    """
    found = _read(Path(model)) if model.endswith(".toml") else Described(model, model, {})
    found = Described(found.name, found.backend, {**found.options, **options})
    build(found.backend, found.options)
    return found


def _read(path: Path) -> Described:
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _wrong(path, f"cannot be read: {error}") from error
    if unknown := said.keys() - _KEYS:
        raise _wrong(path, f"has {min(unknown)!r}, but only name, backend and [options] are known")
    name, backend, options = said.get("name"), said.get("backend"), said.get("options", {})
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise _wrong(path, "has no name of up to 64 letters, digits, dots, dashes and underscores")
    if backend not in BACKENDS:
        raise _wrong(path, f"names the back end {backend!r}, but there are {', '.join(sorted(BACKENDS))}")
    if not isinstance(options, dict):
        raise _wrong(path, "has options that are no section")
    try:
        json.dumps(options)
    except (TypeError, ValueError) as error:
        raise _wrong(path, f"holds an option that JSON has not: {error}") from error
    return Described(name, backend, options)


def _wrong(path: Path, happened: str) -> BadSettings:
    return BadSettings(f"{path} {happened}.", asked=_ASKED, kept="Nothing was started.", advice="Correct the file.")
