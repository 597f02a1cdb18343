from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from headwater.observe import job_metrics

HOME = Path(__file__).parents[2]


def test_every_metric_of_jobs_is_set_somewhere() -> None:
    """One that nobody sets shows a panel that is always empty, and an alert that never fires."""
    rooms = [HOME / room for room in ("connectors", "producers", "streams", "consumers")]
    code = " ".join(file.read_text("utf-8") for room in rooms for file in room.rglob("*.py"))
    named = {name for name, value in vars(job_metrics).items() if isinstance(value, MetricWrapperBase)}
    assert named
    assert {name for name in named if not re.search(rf"\bjob_metrics\.{name}\b", code)} == set()
