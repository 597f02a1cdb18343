"""The main loop: time passes in steps; what ended is verified and told, what is late is noticed, all ask for more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.simulator.compiled import compiled, inlined
from headwater.simulator.swarm.asks import ask_mates, ask_outside, offer
from headwater.simulator.swarm.faults import crash, fall_back, strike_off, tell_again, watch_requests
from headwater.simulator.swarm.moves import announce, complete
from headwater.simulator.swarm.state import MISSING, NEXT_OFFER, Floats, Ints, Swarm
from headwater.simulator.transfers import Transfers, advance, in_use

WATCH_SECONDS = 0.020
"""How often peers look at their requests and at what their rack lacks."""


class Faults(NamedTuple):
    """What goes wrong, and when: hosts by number, times in seconds."""

    crashing: Ints
    crash_share: float
    """They crash when the fleet has so much of all chunks; above 1: never."""
    detect: float
    slow: Ints
    slow_known: float
    late: Ints
    late_at: float


class Records(NamedTuple):
    """What is kept on the way."""

    every: float
    """Seconds between entries of the timeline."""
    timeline: Floats
    """The share of all chunks that are there."""
    samples: NDArray[np.uint8]
    """(second, host, byte) which chunks the first hosts have."""


@compiled
def run(
    s: Swarm,
    t: Transfers,
    faults: Faults,
    records: Records,
    hashes_per_second: float,
    step: float,
    limit: float,
    seed: int,
) -> tuple[int, int, float]:
    """Runs until everybody alive is complete, or ``limit``; returns steps, timeline entries, and the time."""
    np.random.seed(seed)
    hosts, chunks = s.asked.shape
    now, steps, entries, seconds = 0.0, 0, 0, 0
    watched, gossiped, news = 0.0, 0.0, np.array([np.inf, faults.slow_known, faults.late_at])
    while s.counts[MISSING] > 0 and now < limit:
        share = 1.0 - s.counts[MISSING] / (hosts * chunks)
        while entries * records.every <= now and entries < len(records.timeline):
            records.timeline[entries] = share
            entries += 1
        if seconds <= now and seconds < len(records.samples):
            _keep_bits(s, records.samples[seconds])
            seconds += 1
        _strike(s, t, faults, news, share, now)
        if now >= gossiped:
            gossiped += s.seconds[3]
            s.summary[:] = s.holders > 0
        announce(s, now)
        offer(s, t, min(chunks, int(now * hashes_per_second)), now)
        if now >= watched:
            watched += WATCH_SECONDS
            watch_requests(s, t, now)
            fall_back(s, t, s.counts[NEXT_OFFER], now)
        for turn in range(hosts):
            host = (steps + turn) % hosts
            if s.alive[host]:
                if s.told[host] > 0:
                    ask_outside(s, t, host, now)
                if s.idle_until[host] <= now:
                    ask_mates(s, t, host, now)
        ended = advance(t, now, step)
        now += step
        steps += 1
        for place in range(ended):
            if in_use(t, t.ended[place]):
                complete(s, t, t.ended[place], now)
    return steps, entries, now


@inlined
def _strike(s: Swarm, t: Transfers, faults: Faults, news: Floats, share: float, now: float) -> None:
    """Hosts crash, and the view changes: ``news``: when it does, for the dead, slow and late."""
    if share >= faults.crash_share and news[0] == np.inf and len(faults.crashing) > 0 and s.alive[faults.crashing[0]]:
        news[0] = now + faults.detect
        for host in faults.crashing:
            crash(s, t, host, now)
    for place in range(len(news)):
        if now < news[place]:
            continue
        news[place] = np.inf
        if place == 0:
            for host in faults.crashing:
                strike_off(s, host)
        elif place == 1:
            s.slow[faults.slow] = True
        else:
            s.alive[faults.late] = True
            s.listed[faults.late] = True
        tell_again(s)


@inlined
def _keep_bits(s: Swarm, into: NDArray[np.uint8]) -> None:
    into[:] = 0
    for host in range(len(into)):
        for chunk in range(len(s.chunk_size)):
            if s.had[host, chunk]:
                into[host, chunk >> 3] |= np.uint8(128 >> (chunk & 7))
