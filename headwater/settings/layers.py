"""Where settings come from: the TOML file, the environment, flags. Each value keeps its origin, for the errors.

A layer is a tree of names. Later layers win, value by value, not section by section.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from headwater.rules.errors import BadSettings

PREFIX = "HEADWATER_"
FILE_NAME = "headwater.toml"
_SECRET = re.compile(r"(password|secret|token|ssl\.key\.pem|^key$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Given:
    """One value as it was given. ``as_text``: from a variable or a flag, still to be read as its setting's type."""

    value: object = field(repr=False)  # may be a secret
    origin: str
    folder: Path
    """What a relative path in it starts from."""
    as_text: bool = False


Layer = dict[str, Union[Given, "Layer"]]


def find_file(asked: Path | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """--config, else HEADWATER_CONFIG, else ./headwater.toml if there is one."""
    named = asked or (Path(environment[f"{PREFIX}CONFIG"]) if environment.get(f"{PREFIX}CONFIG") else None)
    if named is None:
        default = folder / FILE_NAME
        return default if default.is_file() else None
    path = folder / named.expanduser()
    if not path.is_file():
        raise BadSettings(
            f"the settings file {path} does not exist.",
            asked="Reading the settings.",
            advice=f"Correct {'--config' if asked else f'{PREFIX}CONFIG'}, or leave it out to use ./{FILE_NAME}.",
        )
    return path


def from_file(path: Path) -> Layer:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"{path} is not TOML: {error}.", asked="Reading the settings.", advice="Correct that line."
        ) from error
    except OSError as error:
        raise BadSettings(
            f"{path} cannot be read: {error.strerror}.", asked="Reading the settings.", advice="Make it readable."
        ) from error
    return _tree(content, path)


def _tree(content: Mapping[str, object], path: Path, above: str = "") -> Layer:
    layer: Layer = {}
    for name, value in content.items():
        key = f"{above}{name}"
        if isinstance(value, dict):
            layer[name] = _tree(value, path, f"{key}.")
        elif is_secret(key, value):
            raise BadSettings(
                f"{path} holds the secret {key}.",
                asked="Reading the settings.",
                advice=f"Move it to a file that only you can read and name that with {name}_file, "
                f"or set {variable(key)}. Settings files end up in repositories.",
            )
        else:
            layer[name] = Given(value, str(path), path.parent)
    return layer


def from_environment(environment: Mapping[str, str], known: Iterable[str], folder: Path) -> Layer:
    """HEADWATER_<NAME> for the settings in ``known``, HEADWATER_<SECTION>__<KEY> for those in sections."""
    layer: Layer = {}
    names = set(known)
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or value == "":
            continue
        way = name.removeprefix(PREFIX).lower().split("__")
        if len(way) == 1 and way[0] not in names:
            _refuse_near_miss(name, names)
            continue
        if way[:2] == ["kafka", "client"]:  # librdkafka's names have dots where a variable has underscores
            way[2:] = [segment.replace("_", ".") for segment in way[2:]]
        _put(layer, way, Given(value, name, folder, as_text=True))
    return layer


def _refuse_near_miss(name: str, known: set[str]) -> None:
    """HEADWATER_KAFAK is a slip; HEADWATER_TEST_STACK belongs to somebody else."""
    variables = [f"{PREFIX}{setting.upper()}" for setting in known]
    if close := difflib.get_close_matches(name, variables, n=1, cutoff=0.9):
        raise BadSettings(
            f"the variable {name} is no setting.",
            asked="Reading the settings.",
            advice=f"Did you mean {close[0]}?",
        )


def from_flags(assignments: Iterable[str], folder: Path) -> Layer:
    """``--set section.key=value``, as often as wanted."""
    layer: Layer = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if is_secret(key, value):
            raise BadSettings(
                f"--set {key} would show a secret to everybody who can list processes.",
                asked="Reading the settings.",
                advice=f"Set {variable(key)}, or name a file that holds it with {key}_file.",
            )
        if not equals:
            raise BadSettings(
                f"--set {assignment} has no value.",
                asked="Reading the settings.",
                advice="Write --set section.key=value.",
            )
        _put(layer, segments(key), Given(value, "--set", folder, as_text=True))
    return layer


def is_secret(key: str, value: object = "") -> bool:
    """Does this setting hold a secret, rather than the name of a file that does?"""
    name = segments(key)[-1]
    if name.endswith(("_file", ".location")):
        return False
    if name == "dsn":
        return bool(re.search(r"://[^/@\s]*:[^/@\s]+@|password\s*=", str(value)))
    return bool(_SECRET.search(name))


def segments(key: str) -> list[str]:
    """The names on the way to a setting. What follows ``client.`` is one name: librdkafka's, which has dots."""
    head, client, rest = key.partition(".client.")
    return [*head.split("."), "client", rest] if client else key.split(".")


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + "__".join(segment.replace(".", "_") for segment in segments(key)).upper()


def merged(*layers: Layer) -> Layer:
    """One layer in which the later ones have won."""
    result: Layer = {}
    for layer in layers:
        for name, item in layer.items():
            below = result.get(name)
            both_sections = isinstance(item, dict) and isinstance(below, dict)
            result[name] = merged(below, item) if both_sections else item  # type: ignore[arg-type]
    return result


def _put(layer: Layer, way: list[str], given: Given) -> None:
    *sections, name = way
    for section in sections:
        below = layer.setdefault(section, {})
        if isinstance(below, Given):
            raise BadSettings(
                f"{given.origin} gives a part of {section}, which {below.origin} gives whole.",
                asked="Reading the settings.",
                advice="Keep one of them.",
            )
        layer = below
    layer[name] = given
