"""What the peers ask for next, and what the origin offers: the rules' choices, made for each host in turn."""

from __future__ import annotations

import numpy as np

from headwater.rules.cast.fallback import IMPORTS, ORIGIN_SLOTS
from headwater.simulator.compiled import (
    admits,
    deadline_seconds,
    endgame_chunk,
    in_flight,
    inlined,
    next_chunk,
    offered_to,
    offers,
    source_of,
)
from headwater.simulator.swarm.moves import importer, start
from headwater.simulator.swarm.state import BUSY, NEXT_OFFER, OFFERED, TAKEN, Swarm
from headwater.simulator.transfers import Transfers

_ATTEMPTS = 6
"""Sources that a host tries within one step: BUSY comes back within a round trip."""
_IDLE_SECONDS = 0.002


@inlined
def ask_mates(s: Swarm, t: Transfers, host: int, now: float) -> None:
    """The host asks rack-mates until it has enough under way, or nothing is to be had for the moment."""
    rack = s.rack_of[host]
    begins, ends = s.first_host[rack], s.first_host[rack + 1]
    limit = s.highest[rack]
    usable = np.empty(ends - begins, np.bool_)
    for _ in range(_ATTEMPTS):
        if s.inside[host] >= in_flight(s.slow[host]) or s.missing[host] == 0:
            return
        had, asked, holders = s.had[host, :limit], s.asked[host, :limit], s.holders[rack, :limit]
        chunk = next_chunk(had, asked, holders, s.first[host], np.random.random())
        if chunk < 0 and s.missing[host] <= s.flying[host]:
            chunk = endgame_chunk(s.had[host], s.asked[host], s.holders[rack], s.first[host])
        if chunk < 0:
            s.idle_until[host] = now + _IDLE_SECONDS
            return
        for mate in range(ends - begins):
            usable[mate] = s.listed[begins + mate] and s.busy_until[host, mate] <= now and begins + mate != host
        for place in range(s.flying[host]):
            row = s.flights[host, place]
            if t.chunk[row] == chunk and s.rack_of[t.source[row]] == rack:
                usable[t.source[row] - begins] = False
        slow, load = s.slow[begins:ends], s.load[host, : ends - begins]
        mate = source_of(s.seen[chunk, begins:ends], usable, slow, load, np.random.random())
        if mate < 0:
            continue
        source = begins + mate
        if not s.alive[source] or admits(False, s.uploads[0, source], s.uploads_of[0, source, chunk]):
            start(s, t, source, host, chunk, now)
        else:
            s.busy_until[host, mate] = now + s.seconds[2]
            s.counts[BUSY] += 1


@inlined
def ask_outside(s: Swarm, t: Transfers, host: int, now: float) -> None:
    """The host asks those who told it of a chunk that its rack lacks; the busy are asked again in the next step."""
    origin = len(s.rack_of) - 1
    kept = 0
    for place in range(s.told[host]):
        chunk, source = s.told_chunk[host, place], s.told_source[host, place]
        in_rack = s.holders[s.rack_of[host], chunk] > 0
        if in_rack or s.had[host, chunk] or s.asked[host, chunk] > 0 or not s.listed[source]:
            continue
        outside = s.flying[host] - s.inside[host]
        free = admits(True, s.uploads[1, source], s.uploads_of[1, source, chunk])
        if outside < IMPORTS and (free or not s.alive[source] or source == origin):
            start(s, t, source, host, chunk, now)
            continue
        s.told_chunk[host, kept] = chunk
        s.told_source[host, kept] = source
        kept += 1
    s.told[host] = kept


@inlined
def offer(s: Swarm, t: Transfers, hashed: int, now: float) -> None:
    """The origin offers what has a hash into its free slots; an offer becomes a transfer, or goes to the next host."""
    origin, racks = len(s.rack_of) - 1, s.rack_order.shape[1]
    deadline = deadline_seconds(0.0)
    kept = 0
    for place in range(s.counts[OFFERED]):
        chunk, since, attempt = s.offer_chunk[place], s.offer_time[place], s.offer_attempt[place]
        position, rank = offered_to(attempt)
        host = importer(s, s.rack_order[chunk, position % racks], chunk, rank)
        wanted = host >= 0 and not s.had[host, chunk]
        heard = now - since >= s.seconds[1]
        if wanted and heard and s.asked[host, chunk] > 0:
            s.counts[TAKEN] -= 1
            continue
        if wanted and heard and s.alive[host] and s.flying[host] - s.inside[host] < IMPORTS:
            start(s, t, origin, host, chunk, now)
            s.attempts[chunk] = attempt + 1
            continue
        if not wanted or now - since >= deadline:
            attempt += 1
            since = now
        s.offer_chunk[kept], s.offer_time[kept], s.offer_attempt[kept] = chunk, since, attempt
        kept += 1
    s.counts[OFFERED] = kept
    for _ in range(offers(s.counts[NEXT_OFFER], hashed, s.counts[TAKEN])):
        put_offer(s, s.counts[NEXT_OFFER], now)
        s.counts[NEXT_OFFER] += 1


@inlined
def put_offer(s: Swarm, chunk: int, now: float) -> None:
    """The origin offers a chunk, again where the one who fetched it died: it takes a slot until it is sent."""
    if s.counts[OFFERED] < ORIGIN_SLOTS:
        s.offer_chunk[s.counts[OFFERED]] = chunk
        s.offer_time[s.counts[OFFERED]] = now
        s.offer_attempt[s.counts[OFFERED]] = s.attempts[chunk]
        s.counts[OFFERED] += 1
        s.counts[TAKEN] += 1
