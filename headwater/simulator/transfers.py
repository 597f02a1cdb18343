"""Transfers under way, and how they advance: rates are shared once for each step and hold until its end.

Within a step a transfer that ends leaves its share unused, so a step costs at most its own length of each transfer:
the result errs on the slow side, never below the true time by more than a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.simulator.compiled import Reference, by_reference, compiled, inlined
from headwater.simulator.fairness import LONGEST_PATH, Scratch, scratch, share_fairly

TOLERANCE, ROUNDS = 1e-9, 200
"""Exact but for rounding: on a thousand hosts ten rounds are usual."""


class Transfers(NamedTuple):
    """A table of transfers. ``active`` names its rows in use, ``spare`` the others; ``counts`` how many of each."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    chunk: NDArray[np.int64]
    left: NDArray[np.float64]
    rate: NDArray[np.float64]
    asked: NDArray[np.float64]
    progress: NDArray[np.float64]
    hedged: NDArray[np.bool_]
    paths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    active: NDArray[np.int64]
    place: NDArray[np.int64]
    spare: NDArray[np.int64]
    ended: NDArray[np.int64]
    counts: NDArray[np.int64]
    capacity: NDArray[np.float64]
    carried: NDArray[np.float64]
    """Bytes that crossed each link."""
    memory: Scratch


class TransfersReference(Reference):
    """``Transfers`` for compiled functions."""


class TransfersKind(types.StructRef):
    """Its type."""


transfers_by_reference = by_reference(TransfersReference, TransfersKind, Transfers)


def transfers(capacity: NDArray[np.float64], most: int) -> Transfers:
    """An empty table for ``most`` transfers at a time over links of these capacities (bytes per second)."""
    return Transfers(
        source=np.zeros(most, np.int64),
        target=np.zeros(most, np.int64),
        chunk=np.zeros(most, np.int64),
        left=np.zeros(most),
        rate=np.zeros(most),
        asked=np.zeros(most),
        progress=np.zeros(most),
        hedged=np.zeros(most, np.bool_),
        paths=np.zeros((most, LONGEST_PATH), np.int64),
        lengths=np.zeros(most, np.int64),
        active=np.zeros(most, np.int64),
        place=np.zeros(most, np.int64),
        spare=np.arange(most, dtype=np.int64)[::-1].copy(),
        ended=np.zeros(most, np.int64),
        counts=np.array([0, most], np.int64),
        capacity=capacity.astype(np.float64),
        carried=np.zeros(len(capacity)),
        memory=scratch(len(capacity), most),
    )


@inlined
def begin(table: Transfers, source: int, target: int, chunk: int, size: float, now: float) -> int:
    """A new transfer, whose path is empty still: its row."""
    table.counts[1] -= 1
    row = table.spare[table.counts[1]]
    table.source[row] = source
    table.target[row] = target
    table.chunk[row] = chunk
    table.left[row] = size
    table.rate[row] = 0.0
    table.asked[row] = now
    table.progress[row] = now
    table.hedged[row] = False
    table.lengths[row] = 0
    table.active[table.counts[0]] = row
    table.place[row] = table.counts[0]
    table.counts[0] += 1
    return int(row)


@inlined
def over(table: Transfers, row: int, link: int) -> None:
    """The transfer's path goes over this link too."""
    table.paths[row, table.lengths[row]] = link
    table.lengths[row] += 1


@inlined
def end(table: Transfers, row: int) -> None:
    """The row is free again."""
    table.counts[0] -= 1
    last = table.active[table.counts[0]]
    table.active[table.place[row]] = last
    table.place[last] = table.place[row]
    table.spare[table.counts[1]] = row
    table.counts[1] += 1


@inlined
def in_use(table: Transfers, row: int) -> bool:
    """Whether the row is a transfer still: a duplicate that ended in the same step was broken off by the first."""
    return bool(table.place[row] < table.counts[0] and table.active[table.place[row]] == row)


@compiled
def advance(table: Transfers, now: float, step: float) -> int:
    """Shares the rates and lets ``step`` seconds pass; returns how many transfers ended, their rows in ``ended``.

    Those stay in the table until ``end`` is called for each.
    """
    active = table.active[: table.counts[0]]
    share_fairly(table.capacity, table.paths, table.lengths, active, table.rate, table.memory, TOLERANCE, ROUNDS)
    count = 0
    for row in active:
        moved = min(table.left[row], table.rate[row] * step)
        table.left[row] -= moved
        if moved > 0.0:
            table.progress[row] = now + step
        for place in range(table.lengths[row]):
            table.carried[table.paths[row, place]] += moved
        if table.left[row] <= 1e-3:
            table.ended[count] = row
            count += 1
    return count
