"""The jobs that the benchmarks order: noop ones, whose time is the service's own, and quantiles of how they went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

NOOP = {"model": "noop", "seconds": "1", "size": "16x16"}


def noop(prompt: str, **more: Any) -> dict[str, Any]:
    return {**NOOP, "prompt": prompt, **more}


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def milliseconds(values: Sequence[float], share: float) -> float:
    return round(quantile(values, share) * 1000, 1)
