"""Whether a pool accepts one more job, by what its scheduler says of it: never to be silently late.

What is not known never refuses: without a board, with one that nobody renews, or without a worker, a job is accepted
and says when it starts once that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rules.jobs.board import Board, Standing

STALE_SECONDS = 15.0
"""A board is renewed each second. When it is so old, its scheduler is being replaced."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a job before it is one. ``weight`` is its tenant's. ``deferrable``: its owner rather waits than
    is refused for the wait; a deadline that cannot be kept refuses all the same."""

    tenant: str
    priority: int
    cost_seconds: float
    deadline_us: int | None = None
    weight: float = 1.0
    deferrable: bool = False


@dataclass(frozen=True, slots=True)
class Admitted:
    """``standing`` is None where nothing is known of the pool."""

    standing: Standing | None


@dataclass(frozen=True, slots=True)
class TooLong:
    """It would wait longer than the pool promises (``most_seconds``); after ``retry_after_seconds`` it would not, if
    nobody else came."""

    starts_in_seconds: float
    most_seconds: float
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class TooLate:
    """It would be done after its deadline. ``ends_in_seconds`` is at best, with a worker free now, where the queue does
    not say more."""

    ends_in_seconds: float
    deadline_in_seconds: float


def admit(
    board: Board | None, board_age_seconds: float | None, asked: Asked, max_wait_seconds: float | None, now_us: int
) -> Admitted | TooLong | TooLate:
    """``max_wait_seconds`` is the pool's promise, None where it makes none."""
    known = board if board_age_seconds is not None and board_age_seconds <= STALE_SECONDS else None
    standing = None
    if known is not None:
        standing = known.standing(asked.tenant, asked.priority, now_us, asked.cost_seconds, asked.weight)
    if asked.deadline_us is not None:
        left = (asked.deadline_us - now_us) / 1_000_000
        ends = standing.ends_in_seconds if standing is not None else None
        ends = asked.cost_seconds if ends is None else ends
        if ends > left:
            return TooLate(ends, left)
    starts = standing.starts_in_seconds if standing is not None else None
    if starts is not None and max_wait_seconds is not None and starts > max_wait_seconds and not asked.deferrable:
        return TooLong(starts, max_wait_seconds, starts - max_wait_seconds)
    return Admitted(standing)
