"""One worker, and the whole way of a job through it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

Eventually = Callable[..., Any]


def test_a_granted_job_is_run_and_its_result_is_stored_once(site: Any, eventually: Eventually) -> None:
    site.worker()
    job = site.submit()
    eventually(lambda: site.grant(job), 30)

    view = eventually(lambda: (view := site.job(job)).state == "completed" and view)

    assert view.result_epoch == 1
    stored = site.store.get(view.result["key"])
    assert view.result["key"].startswith(f"r/{job}/1/")
    assert (view.result["bytes"], view.result["sha256"]) == (len(stored), hashlib.sha256(stored).hexdigest())
    (attempt,) = site.attempts(job)
    assert attempt.outcome == "completed"
    assert attempt.gpu_seconds > 0
