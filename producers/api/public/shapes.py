"""What the public API takes and gives: the shapes of the OpenAPI document. Times are unix seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from headwater.producers.api.public.storable import storable
from headwater.rules.jobs.waiting import HIGHEST, LOWEST

Status = Literal["queued", "in_progress", "cancelling", "completed", "failed", "cancelled", "expired"]
Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]
_LATEST_DEADLINE = 253_402_300_799
"""The last second of the year 9999."""


class VideoRequest(BaseModel):
    """A video to be made. What a model takes, ``GET /v1/models`` says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: str = Field(min_length=1, max_length=20_000)
    model: str = Field(min_length=1, max_length=200)
    seconds: str = Field("4", pattern=r"^[1-9][0-9]{0,4}$", description="Whole seconds, as text.")
    size: str | None = Field(
        None, pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$", description="Default: the model's first."
    )
    parameters: dict[str, Any] = Field({}, description="Of the model: its JSON schema says which.")
    input_url: str | None = Field(None, max_length=2_048, description="An image or a video to begin from.")
    priority: int = Field(0, ge=LOWEST, le=HIGHEST, description="Among the tenant's own jobs: higher goes first.")
    deadline: int | None = Field(None, ge=0, le=_LATEST_DEADLINE, description="When the result must be there.")
    webhook_url: str | None = Field(
        None, max_length=2_048, description="StreamEvent when the job ends (Standard Webhooks)."
    )
    metadata: Metadata = Field({}, max_length=16)
    allow_deferred: bool = Field(
        False, description="Accept the job even where it starts later than the service promises."
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_kept(cls, value: Any) -> Any:
        return storable(value)


class VideoError(BaseModel):
    code: str
    message: str


class Video(BaseModel):
    id: str
    object: Literal["video"]
    model: str
    status: Status
    progress: int = Field(ge=0, le=100)
    created_at: int
    started_at: int | None
    completed_at: int | None = Field(description="When it ended, however it ended.")
    expires_at: int | None = Field(description="Until when the result is kept.")
    deadline: int | None
    seconds: str
    size: str
    prompt: str
    parameters: dict[str, Any]
    input_url: str | None
    metadata: dict[str, str]
    priority: int
    webhook_url: str | None
    error: VideoError | None
    attempt: int = Field(description="0 until a worker has it; each further attempt is one more.")
    checkpoint_step: int | None = Field(description="What a next attempt would resume from.")
    cost: int | None = Field(description="Millionths of the currency.")
    retry_of: str | None
    version: int = Field(description="Grows with each change of state: of two of these, the higher is the newer.")
    queue_position: int | None = Field(description="While it is queued: its place, about; 1 is the next.")
    eta: int | None = Field(description="While it is queued: when it should start.")


class VideoList(BaseModel):
    object: Literal["list"]
    data: list[Video]
    has_more: bool
    next: str | None = Field(description="The cursor of the next page: pass it as `after`.")


class Attempt(BaseModel):
    attempt: int
    started_at: int | None
    ended_at: int | None
    granted_at: int
    outcome: str | None = Field(description="completed, failed, lease_lost, released, cancelled, expired, superseded.")
    code: str | None
    message: str | None
    log_tail: str | None = Field(description="The end of what the model's process said.")
    step: int | None
    steps: int | None
    resumed_step: int | None
    gpu_seconds: float | None


class AttemptList(BaseModel):
    object: Literal["list"]
    data: list[Attempt]


class Delivery(BaseModel):
    id: str = Field(description="The webhook-id, the same on each attempt.")
    type: str
    url: str
    state: str = Field(description="pending, delivered or failed.")
    attempts: int
    due_at: int
    last_status: int | None
    last_error: str | None
    created_at: int
    ended_at: int | None


class DeliveryList(BaseModel):
    object: Literal["list"]
    data: list[Delivery]


class Model(BaseModel):
    id: str
    object: Literal["model"]
    sizes: list[str]
    max_seconds: int
    max_prompt: int = Field(description="Characters.")
    input: Literal["none", "optional", "required"] = Field(description="Whether it begins from `input_url`.")
    parameters: dict[str, Any] = Field(description="A JSON schema.")


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[Model]


class ProblemError(BaseModel):
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None
    detail: str


class ProblemShape(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[ProblemError] = []


class Event(BaseModel):
    """``data`` of the stream's events ``status`` and ``progress``."""

    id: str
    object: Literal["video.event"]
    status: Status
    progress: int = Field(ge=0, le=100)
    attempt: int
    step: int
    steps: int
    reason: str
    version: int
    at: float = Field(description="Unix seconds.")


class WebhookBody(BaseModel):
    """Signed as Standard Webhooks 1.0 say."""

    type: Literal["video.completed", "video.failed", "video.cancelled", "video.expired"]
    timestamp: str
    data: dict[str, Any] = Field(description="The video; long fields may be cut so that the body stays below 20 kB.")
