"""Time that a back end lets pass, without missing what is wished meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.connectors.models.protocol import Course, Wish, Work

_LOOK_SECONDS = 0.05


def pause(seconds: float, batch: Sequence[Work], course: Course) -> None:
    """Returns after so long, or as soon as no work of the batch is to go on."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and any(course.wish(work) is Wish.go_on for work in batch):
        time.sleep(min(left, _LOOK_SECONDS))
