"""From a tree of given values to typed, checked, frozen settings. Errors name the key, the value and the fix."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from headwater.rules.errors import BadSettings
from headwater.settings.layers import Given, Layer, is_secret, variable

Noun = TypeVar("Noun")


def build(noun: type[Noun], layer: Layer, above: str = "", **fixed: object) -> Noun:
    """The dataclass ``noun`` from its section. ``above`` is the section's name with a dot, for the errors.

    ``fixed`` are values that the program knows: nobody may set them. Raises BadSettings for an unknown key, a missing
    one, a value of another type, and whatever the class refuses.
    """
    hints = get_type_hints(noun)
    settable = [field for field in fields(noun) if field.name not in fixed]  # type: ignore[arg-type]
    layer = _with_secrets_read(layer, above)
    refuse_unknown(layer, [field.name for field in settable], above)
    values: dict[str, Any] = dict(fixed)
    for field in settable:
        if field.name in layer:
            values[field.name] = _value(hints[field.name], layer[field.name], above + field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise missing(above + field.name)
    try:
        return noun(**values)
    except (ValueError, TypeError) as error:
        raise BadSettings(
            f"the settings of {above.rstrip('.')} contradict each other: {error}.", asked=_ASKED
        ) from error


def missing(key: str) -> BadSettings:
    """The error for a setting that has no default and was not given."""
    return BadSettings(
        f"{key} is not set.",
        asked=_ASKED,
        advice=f"Set it in headwater.toml or as {variable(key)}.",
        key=key,
    )


def not_a_section(key: str, given: Given) -> BadSettings:
    """The error for one value where a section is expected."""
    return BadSettings(
        f"{key} is {_shown(key, given)} (from {given.origin}), but it is a section.",
        asked=_ASKED,
        advice=f"Write its values below [{key}].",
    )


_ASKED = "Reading the settings."


def _with_secrets_read(layer: Layer, above: str) -> Layer:
    """Where a secret's file is named, the secret is what the file holds, without the newline at its end."""
    result = dict(layer)
    for name, given in layer.items():
        secret = name.removesuffix("_file")
        if not (name.endswith("_file") and (secret == "dsn" or is_secret(above + secret)) and isinstance(given, Given)):
            continue
        path = given.folder / Path(str(given.value)).expanduser()
        try:
            text = path.read_text("utf-8").rstrip("\r\n")
        except OSError as error:
            raise BadSettings(
                f"{above}{name} is {str(path)!r} (from {given.origin}), which cannot be read: {error.strerror}.",
                asked=_ASKED,
                advice="Correct the path, or let this user read the file.",
            ) from error
        del result[name]
        result[secret] = Given(text, f"{path}, named by {given.origin}", given.folder, as_text=True)
    return result


def refuse_unknown(layer: Layer, known: Iterable[str], above: str = "") -> None:
    """Raises BadSettings for a name that is not ``known``, with the nearest one that is."""
    names = list(known)
    for name in layer.keys() - set(names):
        item = layer[name]
        origin = f" (from {item.origin})" if isinstance(item, Given) else ""
        close = difflib.get_close_matches(name, names, n=1)
        raise BadSettings(
            f"{above}{name}{origin} is no setting.",
            asked=_ASKED,
            advice=f"Did you mean {above}{close[0]}?" if close else f"Known here: {', '.join(names)}.",
            key=above + name,
        )


def _value(hint: Any, item: Given | Layer, key: str) -> Any:
    wanted = _without_none(hint)
    origin = get_origin(wanted)
    if is_dataclass(wanted) or origin is dict or getattr(origin, "__name__", "") == "Mapping":
        if isinstance(item, Given):
            raise not_a_section(key, item)
        if isinstance(wanted, type) and is_dataclass(wanted):
            return build(wanted, item, f"{key}.")
        return _mapping(get_args(wanted)[1], item, key)
    if isinstance(item, dict):
        raise BadSettings(f"{key} is a section, but it is one value.", asked=_ASKED, advice=f"Write {key} = … instead.")
    return _leaf(hint, wanted, item, key)


def _mapping(hint: Any, layer: Layer, key: str) -> dict[str, Any]:
    """A section whose keys are not ours, such as librdkafka's own settings."""
    return {name: _value(hint, item, f"{key}.{name}") for name, item in _with_secrets_read(layer, f"{key}.").items()}


def _leaf(hint: Any, wanted: Any, given: Given, key: str) -> Any:
    value = given.value
    try:
        if wanted is Path:
            return given.folder / Path(TypeAdapter(str).validate_python(value)).expanduser()
        if wanted is bytes and isinstance(value, str):
            return os.fsencode(given.folder / Path(value).expanduser())
        if given.as_text and get_origin(wanted) in (tuple, list, frozenset):
            value = _listed(str(value))
        return TypeAdapter(hint).validate_python(value, strict=False)
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadSettings(
            f"{key} is {_shown(key, given)} (from {given.origin}): {said[0].lower()}{said[1:]}.",
            asked=_ASKED,
            advice=f"Correct it in {given.origin}.",
            key=key,
        ) from error


def _listed(text: str) -> list[Any]:
    """A list from a variable or a flag: TOML's ["a", "b"], or a,b."""
    if text.lstrip().startswith("["):
        return list(tomllib.loads(f"value = {text}")["value"])
    return [part.strip() for part in text.split(",") if part.strip()]


def _shown(key: str, given: Given) -> str:
    return "(hidden)" if is_secret(key, given.value) else repr(given.value)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint
