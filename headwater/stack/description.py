"""What the local stack consists of, read from ``compose/stack.toml``: the one place that states versions and ports."""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

PROGRAMS = ("kafka", "postgres", "s3", "lakefs")


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the stack. Durations are estimates on two cores, for the person who waits."""

    name: str
    version: str
    ports: Mapping[str, int]
    build_seconds: float
    start_seconds: float
    settings: Mapping[str, str | int | bool]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ports:
    """The loopback ports that the stack listens on."""

    kafka: int
    kafka_controller: int
    postgres: int
    s3: int
    lakefs: int

    @classmethod
    def default(cls) -> Ports:
        return cls(**{key: port for name in PROGRAMS for key, port in program(name).ports.items()})

    @classmethod
    def free(cls) -> Ports:
        """Ports that nobody listens on now; held together while they are chosen, so that all differ."""
        with ExitStack() as held:
            chosen = {}
            for field in fields(cls):
                listener = held.enter_context(socket.socket())
                listener.bind(("127.0.0.1", 0))
                chosen[field.name] = listener.getsockname()[1]
            return cls(**chosen)

    def of(self, name: str) -> dict[str, int]:
        """The ports of program ``name``, by the name of the setting that changes each."""
        return {key: getattr(self, key) for key in program(name).ports}


def compose_file(*parts: str) -> Path:
    """A data file of ``compose/``, as installed."""
    return Path(str(files("headwater.compose").joinpath(*parts)))


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(compose_file("stack.toml").read_text(encoding="utf-8"))


@cache
def program(name: str) -> Program:
    section = dict(_document()[name])
    return Program(
        name=name,
        version=section.pop("version"),
        ports=section.pop("ports"),
        build_seconds=section.pop("build_seconds"),
        start_seconds=section.pop("start_seconds"),
        settings=section.pop("settings", {}),
        options=section,
    )


def toolchain(key: str) -> Any:
    """A value of the ``[toolchains]`` section: a minimum release or a pinned package version."""
    return _document()["toolchains"][key]


def image(name: str) -> str:
    """The container image of a program, with its tag."""
    tagged: str = _document()["images"][name]
    return tagged.format(version=_document().get(name, {}).get("version"))
