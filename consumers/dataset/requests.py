"""Asking the committer for a version."""

from __future__ import annotations

import time

from headwater.connectors.catalog import versions
from headwater.connectors.catalog.versions import Version
from headwater.consumers.dataset.dataset import Dataset
from headwater.rules.errors import Unavailable

_POLL_SECONDS = 0.1


def request_commit(dataset: Dataset, message: str = "", *, wait_seconds: float = 600.0) -> Version | None:
    """Ask for a version of what is verified now, and wait for it; None: nothing had changed since the last.

    Raises Unavailable when no committer answers in time; the request stays, and is answered when one runs.
    """
    with dataset.catalog.transaction() as transaction:
        request = versions.request_commit(transaction, dataset.name, message)
    deadline = time.monotonic() + wait_seconds
    while time.monotonic() < deadline:
        with dataset.catalog.transaction() as transaction:
            is_answered, number = versions.answer(transaction, request)
            if is_answered:
                return versions.by_number(transaction, dataset.name, number) if number is not None else None
        time.sleep(_POLL_SECONDS)
    raise Unavailable(
        f"no committer of {dataset.name} answered within {wait_seconds:.0f} s",
        asked=f"Committing {dataset.name}.",
        kept="The request is kept: a committer makes the version when it runs.",
        advice="Start one with `headwater run commit`, or look why the running one waits in its log.",
    )
