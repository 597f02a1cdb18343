"""What a model back end is: four verbs, and what it is given and gives back.

A model runs in a process of its own, one batch at a time, and knows nothing of Kafka, leases or S3. What it makes for a
work it writes below that work's folder. It tells each step of the batch, and looks at each step what is wished of each
work: only so can a job be cancelled, or be left to another worker from where it is. A model that does not step within
the limits of its capabilities counts as hung, and is killed with all that it started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.failures import code_in

LOG_NAME = "log.txt"
_TAIL_BYTES = 4096
_MESSAGE_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One attempt at a job. ``folder`` is its own, and empty but for ``input`` and ``resume``."""

    job: str
    epoch: int
    prompt: str
    seconds: int
    """Of video."""
    size: str
    """Pixels, such as ``1280x720``."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """As the schema in the model's capabilities has them."""
    folder: Path
    input: Path | None = None
    """The picture or clip to start from."""
    resume: Path | None = None
    """The checkpoint of an earlier attempt, as the same model wrote it."""

    @property
    def log(self) -> Path:
        """What the model says about this work alone: its owner may read the end of it."""
        return self.folder / LOG_NAME


@dataclass(frozen=True, slots=True)
class Output:
    """The work is done. ``path``: one complete file below the work's folder."""

    path: Path


@dataclass(frozen=True, slots=True)
class Failure:
    """It could not be done. ``code``: as in rules/jobs/failures.py, or one that the operator named there."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was stopped as wished, and nothing works on it any more."""


Outcome: TypeAlias = Output | Failure | Stopped


class Wish(Enum):
    """What is wanted of a work from its next step on."""

    go_on = "go_on"
    leave = "leave"
    """Another worker takes it over: make a checkpoint if you can, then stop."""
    stop = "stop"
    """Nobody wants it any more."""


class Course(Protocol):
    """How the host follows one batch. Any thread of the model may call it; no call waits for long."""

    def step(self, step: int, steps: int) -> None:
        """The whole batch has done ``step`` of ``steps``. A resumed one begins above 0."""

    def wish(self, work: Work) -> Wish:
        """To be asked at each step; costs next to nothing."""

    def saved(self, work: Work, step: int, path: Path) -> None:
        """``path``, below the work's folder, is a checkpoint after ``step``. The model does not touch it again."""


class Model(Protocol):
    """One back end. Nothing here is called by two threads at once."""

    def capabilities(self) -> Capabilities:
        """Known before it is loaded."""

    def load(self) -> None:
        """Everything that is needed only once: weights, connections. May take minutes. Raises what it likes."""

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        """How each work of the batch ended, in its order. Blocks until all have.

        ``batch`` has at most ``max_batch`` works. What it raises is the failure of all of them (``failure_of``).
        """


class ModelError(Exception):
    """What a back end raises where it knows the code of its failure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(code, shortened(message))


def failure_of(error: Exception, otherwise: str = "model_failed") -> Failure:
    """What an exception of a model means, as far as its words betray it."""
    if isinstance(error, ModelError):
        return error.failure
    said = str(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return Failure(code_in(said) or otherwise, shortened(said))


def shortened(message: str) -> str:
    """One line that a person reads to its end, in characters that every store takes."""
    line = " ".join(message.replace("\x00", "").split())
    line = line.encode(errors="replace").decode()
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"


def log_tail(folder: Path) -> str:
    """The end of what the model said about the work with this folder; empty where it said nothing."""
    try:
        with (folder / LOG_NAME).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            end = file.read(_TAIL_BYTES)
    except OSError:
        return ""
    return end.decode(errors="replace").replace("\x00", "").strip()
