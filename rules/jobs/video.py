"""A job as its owner sees it: the video object of the API, of its events and of its webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.rules.jobs.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job's row as far as its owner may see it, with the progress of the worker that has it. Times are aware.

    ``request`` holds prompt, seconds (text), size, parameters, input_url and metadata; ``progress`` is in percent;
    ``cost`` and all amounts are millionths of the currency.
    """

    job: str
    tenant: str
    pool: str
    model: str
    state: JobState
    version: int
    epoch: int
    result_epoch: int | None
    request: Mapping[str, Any]
    priority: int
    cost_seconds: float
    deadline: datetime | None
    created_at: datetime
    queued_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    expires_at: datetime | None
    deleted_at: datetime | None
    progress: int
    step: int
    steps: int
    reason: str
    error_code: str | None
    error_message: str | None
    checkpoint: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    cost: int | None
    webhook_url: str | None
    retry_of: str | None


def video_object(job: JobView) -> dict[str, Any]:
    """The video object but for its place in the queue, which only a scheduler's board can tell. Times are unix seconds.

    ``version`` grows with every change of state: of two of these objects, the one with the higher one is the newer.
    """
    request = job.request
    return {
        "id": job.job,
        "object": "video",
        "model": job.model,
        "status": job.state.public,
        "progress": 100 if job.state is JobState.completed else job.progress,
        "created_at": _unix(job.created_at),
        "started_at": _unix(job.started_at),
        "completed_at": _unix(job.completed_at),
        "expires_at": _unix(job.expires_at),
        "deadline": _unix(job.deadline),
        "seconds": request["seconds"],
        "size": request["size"],
        "prompt": request["prompt"],
        "parameters": request.get("parameters") or {},
        "input_url": request.get("input_url"),
        "metadata": request.get("metadata") or {},
        "priority": job.priority,
        "webhook_url": job.webhook_url,
        "error": _error(job),
        "attempt": job.epoch,
        "checkpoint_step": job.checkpoint.get("step") if job.checkpoint else None,
        "cost": job.cost,
        "retry_of": job.retry_of,
        "version": job.version,
    }


def _error(job: JobView) -> dict[str, str] | None:
    if not job.state.final or job.state is JobState.completed:
        return None
    return {"code": job.error_code or job.state.value, "message": job.error_message or job.reason}


def _unix(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
