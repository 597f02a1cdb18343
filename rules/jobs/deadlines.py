"""Deadlines: which job can still keep its own, and from when it goes before the others of its tenant.

A deadline is when the result must be there. A job that could not be done in time even if it started now is not
started: its tenant would pay for what comes too late. It expires at once, with the reason, instead of at the deadline.
"""

from __future__ import annotations

_RISK_SECONDS = 30.0
_RISK_COSTS = 2.0


def latest_start_us(deadline_us: int, cost_seconds: float) -> int:
    """Until when a job of this cost can be started and still be in time."""
    return deadline_us - round(cost_seconds * 1_000_000)


def at_risk_us(deadline_us: int, cost_seconds: float) -> int:
    """From when a job of this cost is at risk: half a minute before its latest start, and the time that the slots may
    be taken by jobs like it."""
    return latest_start_us(deadline_us, cost_seconds) - round((_RISK_SECONDS + _RISK_COSTS * cost_seconds) * 1_000_000)


def infeasible_reason(deadline_us: int, cost_seconds: float, now_us: int) -> str:
    """What its owner reads."""
    left = (deadline_us - now_us) / 1_000_000
    return f"The deadline is in {max(0.0, left):.0f} s; the job would take about {cost_seconds:.0f} s."
