"""A model that makes a kilobyte of bytes at once: what remains of a job's time is the service's own (benchmarks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blake3 import blake3

from headwater.connectors.models.protocol import Course, Outcome, Output, Stopped, Wish, Work
from headwater.rules.jobs.capabilities import Capabilities

_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NoopConfig:
    max_batch: int = 64
    """Works at once: many slots are so served by one process."""


class Noop:
    def __init__(self, config: NoopConfig) -> None:
        self._config = config

    def capabilities(self) -> Capabilities:
        return Capabilities(
            sizes=("1x1",),
            max_seconds=1,
            container="bytes",
            max_batch=self._config.max_batch,
            step_limit_seconds=10.0,
            gpu_seconds_per_second={"1x1": 0.001},
        )

    def load(self) -> None:
        pass

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        outcomes = [Stopped() if course.wish(work) is not Wish.go_on else _made(work) for work in batch]
        course.step(1, 1)
        return outcomes


def _made(work: Work) -> Output:
    path = work.folder / "output.bin"
    path.write_bytes(blake3(work.prompt.encode(errors="replace")).digest(length=_BYTES))
    return Output(path)
