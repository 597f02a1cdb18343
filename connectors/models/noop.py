"""A model that makes a kilobyte of bytes at once: what remains of a job's time is the service's own (benchmarks)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from blake3 import blake3

from headwater.connectors.models.pausing import pause
from headwater.connectors.models.protocol import Course, Failure, Outcome, Output, Stopped, Wish, Work
from headwater.rules.jobs.capabilities import Capabilities

_BYTES = 1024
_STEPS = 10
"""Of a batch that takes time."""
_PARAMETERS = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "minimum": 0, "maximum": 600, "description": "How long it takes."},
        "fail": {"type": "string", "pattern": "^[a-z_]{1,40}$", "description": "The code that it fails with."},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoopConfig:
    max_batch: int = 64
    """Works at once: many slots are so served by one process."""
    seconds: float = 0.0
    """How long a work takes that does not say so itself. A batch takes as long as its longest."""


class Noop:
    """Each output begins with the time at which the model began, in ns since 1970 and a newline."""

    def __init__(self, config: NoopConfig) -> None:
        self._config = config

    def capabilities(self) -> Capabilities:
        return Capabilities(
            sizes=("16x16",),
            max_seconds=1,
            parameters=_PARAMETERS,
            container="bytes",
            max_batch=self._config.max_batch,
            gpu_seconds_per_second={"16x16": self._config.seconds or 0.001},
        )

    def load(self) -> None:
        pass

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        begun = time.time_ns()
        seconds = max(work.parameters.get("seconds", self._config.seconds) for work in batch)
        steps = _STEPS if seconds else 1
        for step in range(steps):
            pause(seconds / steps, batch, course)
            course.step(step + 1, steps)
            if all(course.wish(work) is not Wish.go_on for work in batch):
                break
        return [Stopped() if course.wish(work) is not Wish.go_on else _outcome(work, begun) for work in batch]


def _outcome(work: Work, begun: int) -> Outcome:
    if "fail" in work.parameters:
        return Failure(work.parameters["fail"], "It was asked to fail.")
    path = work.folder / "output.bin"
    rest = blake3(work.prompt.encode(errors="replace")).digest(length=_BYTES)
    path.write_bytes((f"{begun}\n".encode() + rest)[:_BYTES])
    return Output(path)
