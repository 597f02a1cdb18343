"""Jobs as people read them: one line, one row, or all that is known. A job is the API's video object, as it came."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from headwater.cli import output

Video = Mapping[str, Any]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as `headwater jobs` shows it.")]

FINAL = ("completed", "failed", "cancelled", "expired")
_STYLES = {
    "queued": "yellow",
    "in_progress": "cyan",
    "cancelling": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "expired": "red",
}


def status(video: Video) -> Text:
    return Text(video["status"], style=_STYLES.get(video["status"], ""))


def line(video: Video) -> Text:
    """Where the job is now, in a line."""
    return Text(video["id"], style="bold").append("  ").append(status(video)).append(f"  {standing(video)}")


def standing(video: Video) -> str:
    """What is known beyond the status: how far it is, what it waits for, how it ended."""
    match video["status"]:
        case "queued":
            return _place(video)
        case "in_progress":
            return f"{video['progress']} %, attempt {video['attempt']}"
        case "cancelling":
            return "its worker was told to stop"
        case "completed":
            return f"in {_took(video)}, attempt {video['attempt']}"
        case "cancelled":
            return ""
        case _:
            error = video["error"] or {}
            return f"{error.get('code', '')}: {error.get('message', '')}"


def _place(video: Video) -> str:
    position, eta = video.get("queue_position"), video.get("eta")
    place = "waits" if position is None else f"place {position:,} in the queue"
    return place if eta is None else f"{place}, starts in about {output.duration(max(0.0, eta - time.time()))}"


def _took(video: Video) -> str:
    seconds = video["completed_at"] - video["created_at"]
    return output.duration(seconds) if seconds else "less than a second"


def row(video: Video) -> tuple[str | Text, ...]:
    return (
        video["id"],
        status(video),
        moment(video["created_at"]),
        video["model"],
        prompt(video),
        standing(video),
    )


COLUMNS = ("job", "status", "submitted", "model", "prompt", "")
WHOLE = ("job", "status", "submitted")
_PROMPT = 40


def prompt(video: Video) -> str:
    """In one line, and not for ever."""
    text = " ".join(video["prompt"].split())
    return text if len(text) <= _PROMPT else f"{text[: _PROMPT - 1]}…"


def details(video: Video) -> Iterator[tuple[str, str]]:
    """All that is known of a job, as names and values."""
    yield "prompt", " ".join(video["prompt"].split())
    yield "video", f"{video['seconds']} s, {video['size']}, by {video['model']}"
    if video["parameters"]:
        yield "parameters", _pairs(video["parameters"])
    if video["metadata"]:
        yield "metadata", _pairs(video["metadata"])
    for name in ("input_url", "webhook_url", "retry_of"):
        if video[name]:
            yield name.removesuffix("_url").replace("_", " "), video[name]
    if video["priority"]:
        yield "priority", str(video["priority"])
    for name in ("created_at", "started_at", "completed_at", "deadline", "expires_at"):
        if video[name]:
            yield _WHEN[name], moment(video[name])
    if video["checkpoint_step"] is not None and video["status"] not in FINAL:
        yield "checkpoint", f"at step {video['checkpoint_step']}: a next attempt resumes there"
    if video["cost"] is not None:
        yield "cost", amount(video["cost"])


_WHEN = {
    "created_at": "submitted",
    "started_at": "started",
    "completed_at": "ended",
    "deadline": "deadline",
    "expires_at": "kept until",
}


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def moment(seconds: float) -> str:
    return output.moment(int(seconds * 1000))[:19]


def amount(millionths: int) -> str:
    """Of the currency, which only the operator knows."""
    return f"{millionths / 1_000_000:,.6f}".rstrip("0").rstrip(".")
