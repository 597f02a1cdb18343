"""Which of the waiting works a free host begins now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.consumers.worker.messages import Attempt


@dataclass(frozen=True, slots=True)
class Waiting:
    """An attempt that could begin. ``shape``: those of one shape may share a batch (model, size, length)."""

    attempt: Attempt
    shape: tuple[str, ...]
    since: float


def next_batch(
    waiting: Sequence[Waiting], *, now: float, max_batch: int, wait_seconds: float, free: int
) -> tuple[Waiting, ...]:
    """The works to begin with at ``now``; empty: it is better to wait for more, or there are none.

    The shape of the longest waiting goes first. It waits for a full batch until it waited ``wait_seconds``, and not at
    all where nothing can come: ``free`` slots are those for which this worker has no job.
    """
    if not waiting:
        return ()
    oldest = min(waiting, key=lambda one: one.since)
    same = sorted((one for one in waiting if one.shape == oldest.shape), key=lambda one: one.since)[:max_batch]
    full = len(same) == max_batch or free == 0
    return tuple(same) if full or now >= oldest.since + wait_seconds else ()


def patience(waiting: Sequence[Waiting], *, now: float, wait_seconds: float) -> float | None:
    """After how many seconds ``next_batch`` may decide otherwise although nothing happened. None: never."""
    if not waiting:
        return None
    return max(0.0, min(one.since for one in waiting) + wait_seconds - now)
