"""The attempts that a worker holds: what it knows of each, and how far each is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headwater.consumers.worker.messages import Attempt, HostWork
from headwater.rules.jobs.capabilities import length_class
from headwater.schemas.worker_api import Beat, Claimed, Stage, StoredCheckpoint


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt failed, as rules/jobs/failures.py names it."""

    code: str
    message: str


class Phase(StrEnum):
    preparing = "preparing"
    """Its input or checkpoint is fetched."""
    waiting = "waiting"
    """For a free host, or for company in its batch."""
    generating = "generating"
    generated = "generated"
    """The model is done; too many are finishing already, so that it keeps its slot."""
    finishing = "finishing"
    """Probed, uploaded. Its slot is free."""
    concluding = "concluding"
    """It is over without a result; a checkpoint that is worth having is on its way to S3."""
    ending = "ending"
    """How it ended is being told to the endpoint."""


class Ending(StrEnum):
    """Why an attempt is stopped before it is done."""

    cancelled = "cancelled"
    released = "released"
    """The worker drains: its checkpoint goes to whoever has it next."""
    hung = "hung"
    lost = "lost"
    """It is another's: nothing is told."""


_STAGES = {
    Phase.generating: Stage.generating,
    Phase.finishing: Stage.finishing,
    Phase.concluding: Stage.finishing,
    Phase.ending: Stage.finishing,
}


@dataclass(slots=True)
class Held:
    """One attempt. Changed by the supervisor's thread only; the beats read it from theirs."""

    claimed: Claimed
    folder: Path
    since: float
    """When it was claimed, began, began to finish: by ``beats.now``."""
    phase: Phase = Phase.preparing
    ending: Ending | None = None
    trouble: Trouble | None = None
    """Why it failed."""
    end_by: float | None = None
    """When a model that was told to stop is killed; when a checkpoint is not waited for any more."""
    step: int = 0
    steps: int = 0
    host: int | None = None
    begun: bool = False
    """The model has begun with it: its death may be this work's fault."""
    gpu_seconds: float = 0.0
    input: Path | None = None
    resume: Path | None = None
    output: Path | None = None
    told_finishing: bool = False
    checkpoint: StoredCheckpoint | None = None
    """The newest in S3."""
    told_checkpoint: StoredCheckpoint | None = None
    uploading: bool = False
    """A checkpoint of it is on its way to S3."""
    newest_file: tuple[int, Path] | None = None
    """A newer checkpoint that waits until that one is there."""

    @property
    def attempt(self) -> Attempt:
        return self.claimed.job, self.claimed.epoch

    @property
    def shape(self) -> tuple[str, ...]:
        """Jobs of one shape may share a batch. One that took a model down before is of no shape but its own."""
        request = self.claimed.request
        alone = self.claimed.job if self.claimed.crashes else ""
        return self.claimed.model, str(request["size"]), str(length_class(int(request["seconds"]))), alone

    @property
    def occupies(self) -> bool:
        """Does it take a slot?"""
        return self.phase not in (Phase.finishing, Phase.concluding, Phase.ending)

    def work(self) -> HostWork:
        """What the model's host is told of it."""
        request = self.claimed.request
        return HostWork(
            job=self.claimed.job,
            epoch=self.claimed.epoch,
            prompt=request["prompt"],
            seconds=int(request["seconds"]),
            size=request["size"],
            parameters=request.get("parameters") or {},
            folder=str(self.folder),
            input=str(self.input) if self.input else None,
            resume=str(self.resume) if self.resume else None,
        )

    def beat(self) -> Beat:
        return Beat(
            job=self.claimed.job,
            epoch=self.claimed.epoch,
            step=self.step,
            steps=self.steps,
            stage=_STAGES.get(self.phase, Stage.granted),
            checkpoint=self.checkpoint if self.checkpoint != self.told_checkpoint else None,
        )

    def last_beat(self) -> Beat:
        """With which it is given back: its checkpoint is said whether it was told or not."""
        return self.beat().model_copy(update={"checkpoint": self.checkpoint})


@dataclass(slots=True)
class Attempts:
    """By job and epoch."""

    held: dict[Attempt, Held] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self.held.values()))

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self.held

    def get(self, attempt: Attempt) -> Held | None:
        return self.held.get(attempt)

    def add(self, held: Held) -> None:
        self.held[held.attempt] = held

    def remove(self, attempt: Attempt) -> None:
        self.held.pop(attempt, None)

    def of_host(self, host: int) -> list[Held]:
        return [held for held in self if held.host == host and held.phase is Phase.generating]

    def of_phase(self, *phases: Phase) -> list[Held]:
        return [held for held in self if held.phase in phases]

    @property
    def occupied(self) -> int:
        return sum(held.occupies for held in self)

    def beats(self) -> tuple[Beat, ...]:
        """From any thread."""
        return tuple(held.beat() for held in self.held.copy().values())
