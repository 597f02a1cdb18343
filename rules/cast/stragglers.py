"""Which hosts of a rack are slow: far below what their rack-mates receive, for seconds, while these are not starved.

A slow host is no chunk's importer, since a whole rack would wait for it, and people are told its name. Everybody
compares hosts of one rack only: another rack's uplink or importers may be slower without any host's fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

WINDOW_SECONDS = 5
"""Rates are means over so long: one slow second is a disk that flushes, or a chunk that was lost."""
SLOW_SHARE = 0.5
"""Slow is below this share of the median rate. A host at a quarter of the speed is well below; two that share a link
unequally are not."""
WELL_SHARE = 0.75
"""A slow host is well again above this one, so that nobody goes to and fro at the border."""
LEAST_CHUNKS = 8
"""Judged only while the median host receives so many chunks in the window: below, chance decides who got the last."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A host that lacks chunks, and was heard of through the whole window. ``received``: bytes in the window."""

    host: str
    received: int
    chunks: int
    """That it has."""


def slow_hosts(paces: Iterable[Pace], chunk_bytes: int, slow_before: frozenset[str]) -> frozenset[str]:
    """The slow ones of a rack's hosts. ``slow_before``: those that were slow when this was last asked.

    A host that is further than the median, in chunks, is not slow whatever its rate: it waits for the others. Where
    too little comes for all, or only one host is left, nobody changes.
    """
    paces = list(paces)
    rates, had = sorted(pace.received for pace in paces), sorted(pace.chunks for pace in paces)
    middle = len(paces) // 2
    if len(paces) < 2 or rates[middle] < LEAST_CHUNKS * chunk_bytes:
        return slow_before & {pace.host for pace in paces}
    median = rates[middle]
    found = set()
    for pace in paces:
        share = WELL_SHARE if pace.host in slow_before else SLOW_SHARE
        if pace.received < math.floor(share * median) and pace.chunks <= had[middle]:
            found.add(pace.host)
    return frozenset(found)
