"""What workers and the internal endpoint say to each other: JSON over HTTP, a list a request, an answer an item.

Fields that a side does not know it ignores, so that workers and endpoints of two releases understand each other. Every
request may be repeated: an answer that was lost is given again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Signed(Shape):
    """Who asks: a worker, in the life that it now leads (nanoseconds of its start)."""

    worker: Name
    incarnation: Annotated[int, Field(gt=0)]


class Attempt(Shape):
    job: Name
    epoch: Annotated[int, Field(gt=0)]


class OfferedModel(Shape):
    model: Name
    capabilities: dict[str, Any]


class Registration(Signed):
    """``POST /register``: first, and again whenever an answer says that the worker is unknown."""

    pool: Name
    slots: Annotated[int, Field(gt=0)]
    host: Name
    models: tuple[OfferedModel, ...]


class Registered(Shape):
    """``partition``: of jobs.grants, the worker's own."""

    partition: int
    lease_seconds: float
    beat_seconds: float


class ClaimRequest(Signed):
    """``POST /claim``: may I begin with what was granted to me?"""

    grants: tuple[Attempt, ...]


class ClaimOutcome(StrEnum):
    claimed = "claimed"
    gone = "gone"
    """Cancelled, expired or granted to another meanwhile: nothing is to be done."""


class StoredCheckpoint(Shape):
    key: str
    step: Count
    epoch: Count
    """Of the attempt that made it."""


class Claimed(Attempt):
    outcome: ClaimOutcome
    model: str = ""
    request: dict[str, Any] = Field(default_factory=dict)
    """prompt, seconds, size, parameters, input_url: as the tenant asked."""
    checkpoint: StoredCheckpoint | None = None
    crashes: Count = 0
    """How often this job took a model's process down: it then shares its batch with nobody."""


class Claims(Shape):
    claims: tuple[Claimed, ...]


class Stage(StrEnum):
    granted = "granted"
    """Claimed, and waits for the model: its steps are not awaited yet."""
    generating = "generating"
    finishing = "finishing"
    """The model is done with it: its slot is free."""


class Beat(Attempt):
    step: Count
    steps: Count
    stage: Stage
    checkpoint: StoredCheckpoint | None = None
    """The newest, where it was not told before."""


class BeatRequest(Signed):
    """``POST /beat``: I live, and this is how far I am. ``draining``: give me nothing new."""

    draining: bool
    beats: tuple[Beat, ...]


class BeatOutcome(StrEnum):
    extended = "extended"
    stalled = "stalled"
    """Its step has not moved for too long: the lease was not extended."""
    cancel = "cancel"
    """Its owner cancelled it: stop, then say ``stopped``. The lease was extended."""
    lost = "lost"
    """It is another's, or ended: stop, and report nothing."""


class BeatAnswer(Attempt):
    outcome: BeatOutcome


class Beats(Shape):
    beats: tuple[BeatAnswer, ...]
    granted: tuple[Attempt, ...]
    """What is granted to this worker and not claimed yet: grants whose records got lost."""
    unknown_worker: bool
    """The worker is not registered in this incarnation. An older one of the name: a newer one lives."""


class Completed(Attempt):
    """``result``: key, bytes, sha256, container, seconds, frames, size, thumbnail."""

    result: dict[str, Any]
    gpu_seconds: Seconds


class CompleteRequest(Signed):
    """``POST /complete``: the one commit point of a job."""

    results: tuple[Completed, ...]


class Failed(Attempt):
    code: Name
    message: Annotated[str, Field(max_length=4_000)]
    log_tail: Annotated[str, Field(max_length=20_000)] = ""
    gpu_seconds: Seconds
    checkpoint: StoredCheckpoint | None = None
    """The newest: the next attempt goes on from there."""


class FailRequest(Signed):
    """``POST /fail``: the attempt failed; whether another follows is not the worker's to say."""

    failures: tuple[Failed, ...]


class ReleaseRequest(Signed):
    """``POST /release``: given back unfinished (a drain); ``checkpoint`` is kept for the next attempt."""

    releases: tuple[Beat, ...]


class Stopped(Attempt):
    gpu_seconds: Seconds


class StoppedRequest(Signed):
    """``POST /stopped``: proof that nothing of a cancelled job runs any more."""

    stopped: tuple[Stopped, ...]


class EndOutcome(StrEnum):
    won = "won"
    """It took effect, now or when it was asked before."""
    lost = "lost"
    """The attempt was not this worker's any more: nothing changed."""
    cancelled = "cancelled"
    """Its owner cancelled it meanwhile: it ended as cancelled."""


class EndAnswer(Attempt):
    outcome: EndOutcome


class Ends(Shape):
    """The answer to complete, fail, release and stopped."""

    ends: tuple[EndAnswer, ...]
