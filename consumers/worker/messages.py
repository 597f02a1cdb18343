"""What a supervisor and its model hosts say to each other: one JSON object a line over a socket pair.

    supervisor ─► host    generate (a batch), stop (some works of it); the end of the stream: exit at once
    host ─► supervisor    hello, loaded | loadfailed; then steps, checkpoint, results; its death is the stream's end

A host has one batch at a time. It says hello before it loads, and exactly one result for each work that it was given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Attempt: TypeAlias = tuple[str, int]
"""Job and epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """One attempt at a job. ``folder`` is this attempt's own and there; ``input`` and ``resume`` are files or None."""

    job: str
    epoch: int
    prompt: str
    seconds: float
    size: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    folder: str
    input: str | None = None
    resume: str | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """Begin a batch: at most ``capabilities.max_batch`` works, compatible with each other."""

    works: tuple[HostWork, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop these works at their next step. ``checkpoint``: a model that can makes one before it stops."""

    works: tuple[Attempt, ...]
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message. ``capabilities`` as rules/jobs/capabilities.py reads them."""

    capabilities: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The last message: the host exits."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Steps:
    """(job, epoch, step, steps) of works that moved; step 0 when the model begins with them."""

    steps: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file that is complete and does not change any more."""

    job: str
    epoch: int
    step: int
    path: str


class ResultKind(StrEnum):
    done = "done"
    failed = "failed"
    stopped = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one work ended. ``path``: the output, where it is done; ``code`` and ``message`` where it failed."""

    kind: ResultKind
    job: str
    epoch: int
    gpu_seconds: float
    path: str = ""
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    results: tuple[Result, ...]


ToHost: TypeAlias = Generate | Stop
FromHost: TypeAlias = Hello | Loaded | LoadFailed | Steps | Checkpoint | Results

_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Generate, Stop, Hello, Loaded, LoadFailed, Steps, Checkpoint, Results)
}


def encode(message: ToHost | FromHost) -> bytes:
    """One line, its newline included."""
    return json.dumps({"kind": type(message).__name__.lower(), **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> ToHost | FromHost:
    """Raises ValueError where the line is no message."""
    try:
        fields = json.loads(line)
        kind = fields.pop("kind")
        message: ToHost | FromHost = _built(_KINDS[kind], fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no message of a worker and its host: {line[:200]!r} ({error!r})") from error
    return message


def _built(kind: type[Any], fields: dict[str, Any]) -> Any:
    if kind is Generate:
        return Generate(tuple(HostWork(**work) for work in fields["works"]))
    if kind is Results:
        return Results(tuple(Result(**one | {"kind": ResultKind(one["kind"])}) for one in fields["results"]))
    if kind is Steps:
        return Steps(tuple((job, epoch, step, steps) for job, epoch, step, steps in fields["steps"]))
    if kind is Stop:
        return Stop(tuple((job, epoch) for job, epoch in fields["works"]), fields["checkpoint"])
    return kind(**fields)
