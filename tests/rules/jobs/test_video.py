from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView, video_object

_AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _job(**changes: Any) -> JobView:
    plain: dict[str, Any] = dict.fromkeys(JobView.__slots__)
    plain |= {
        "job": "video_1",
        "tenant": "a",
        "model": "testcard",
        "state": JobState.queued,
        "version": 3,
        "epoch": 1,
        "request": {"seconds": "4", "size": "720x1280", "prompt": "a fox"},
        "created_at": _AT,
        "progress": 40,
        "reason": "lease lost",
    }
    return JobView(**(plain | changes))


def test_times_are_unix_seconds_and_what_is_not_there_is_null() -> None:
    video = video_object(_job())
    assert video["created_at"] == 1_796_040_000  # date -u -d 2026-11-30T12:00:00 +%s
    assert video["completed_at"] is None
    assert video["input_url"] is None
    assert video["metadata"] == {}


@pytest.mark.parametrize(
    ("state", "status", "progress"),
    [
        (JobState.queued, "queued", 40),
        (JobState.granted, "queued", 40),
        (JobState.running, "in_progress", 40),
        (JobState.cancelling, "cancelling", 40),
        (JobState.completed, "completed", 100),
        (JobState.failed, "failed", 40),
    ],
)
def test_the_owner_sees_public_states(state: JobState, status: str, progress: int) -> None:
    video = video_object(_job(state=state))
    assert (video["status"], video["progress"]) == (status, progress)


def test_only_a_job_that_ended_without_a_result_has_an_error() -> None:
    assert video_object(_job(state=JobState.running))["error"] is None
    assert video_object(_job(state=JobState.completed))["error"] is None
    failed = video_object(_job(state=JobState.failed, error_code="refused", error_message="no"))
    assert failed["error"] == {"code": "refused", "message": "no"}
    assert video_object(_job(state=JobState.expired, reason="too late"))["error"] == {
        "code": "expired",
        "message": "too late",
    }


def test_nothing_of_the_inside_is_shown() -> None:
    assert video_object(_job()).keys().isdisjoint({"tenant", "pool", "result", "result_epoch", "cost_seconds"})
