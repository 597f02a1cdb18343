"""JSON answers, and the video with its place in the queue."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from fastapi import Response

from headwater.producers.api.public.offers import Offers
from headwater.rules.jobs.video import JobView, video_object


def as_json(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Written by hand, since it is checked by tests: a model of pydantic would take longer than all else."""
    return Response(json.dumps(body), status, headers=dict(headers or {}), media_type="application/json")


def video(job: JobView, offers: Offers, weight: float) -> dict[str, Any]:
    """The shape ``Video``."""
    standing = offers.standing(job, weight)
    starts = standing.starts_in_seconds if standing is not None else None
    return {
        **video_object(job),
        "queue_position": standing.position if standing is not None else None,
        "eta": None if starts is None else round(time.time() + starts),
    }
