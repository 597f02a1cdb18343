"""A curve drawn with characters: a share from 0 to 1 over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def drawn(seconds: ArrayLike, shares: ArrayLike, end: float, width: int, height: int) -> list[str]:
    """Lines from top to bottom, below them an axis with the seconds from 0 to ``end``.

    Each column shows the share that was reached by its end. ``seconds`` grow.
    """
    ends = np.arange(1, width + 1) * end / width
    reached = np.searchsorted(np.asarray(seconds), ends * (1 + 1e-9), side="right")
    levels = np.concatenate(([0.0], np.asarray(shares)))[reached]
    eighths = np.round(np.clip(levels, 0, 1) * height * 8).astype(int)
    lines = []
    for row in reversed(range(height)):
        label = {height - 1: "100 %", 0: "0 %"}.get(row, "")
        filled = "".join(_EIGHTHS[min(8, max(0, eighth - row * 8))] for eighth in eighths)
        lines.append(f"{label:>6} │{filled}")
    last = f"{end:,.1f} s"
    lines.append(" " * 7 + "└" + "─" * width)
    lines.append(" " * 8 + "0" + last.rjust(width - 1))
    return lines
