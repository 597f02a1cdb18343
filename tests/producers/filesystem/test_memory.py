"""Case 16: what the agent holds in memory does not grow with the number of files that it knows."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from typing import Any

from headwater.producers.filesystem.config import AgentConfig

Eventually = Callable[..., Any]
FEW, MANY = 1_200, 4_000


def test_memory_does_not_grow_with_the_number_of_files(
    config: AgentConfig, follow: Any, eventually: Eventually
) -> None:
    """Scaled down: the peak while all is listed and compared once more, over hard links of one file."""
    (config.root / "0").write_bytes(b"linked")
    peaks = []
    for count in (FEW, MANY):
        for number in range(len(os.listdir(config.root)), count):
            os.link(config.root / "0", config.root / f"{number}")
        with follow() as running:
            eventually(lambda running=running, count=count: all_recorded(running, count), 60)
        tracemalloc.start()
        try:
            with follow() as running:
                eventually(lambda running=running, count=count: all_recorded(running, count), 60)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    few, many = peaks
    assert many - few < 200 * (MANY - FEW), f"{few:,} bytes for {FEW:,} files, {many:,} for {MANY:,}"


def all_recorded(running: Any, count: int) -> bool:
    status = running.status
    return bool(status.walked and status.files == count and not status.settling and not status.outbox)
