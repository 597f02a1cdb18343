"""Who dies, who notices when, and how what was lost gets in by other ways."""

from __future__ import annotations

import numpy as np

from headwater.rules.cast.deadlines import ABANDON, HEDGE
from headwater.rules.cast.fallback import IMPORTS, ORIGIN_SLOTS
from headwater.simulator.compiled import admits, deadline_seconds, inlined, is_due, may_import, verdict, ways_in
from headwater.simulator.swarm.asks import put_offer
from headwater.simulator.swarm.moves import importer, release, start, tell_neighbours
from headwater.simulator.swarm.state import ABANDONED, FALLBACKS, HEDGED, MISSING, TAKEN, Swarm
from headwater.simulator.transfers import Transfers


@inlined
def crash(s: Swarm, t: Transfers, host: int, now: float) -> None:
    """The host dies and says nothing: what it fetched is broken off, what it served stands still."""
    s.alive[host] = False
    while s.flying[host] > 0:
        row = s.flights[host, 0]
        chunk, from_origin = t.chunk[row], s.rack_of[t.source[row]] < 0
        release(s, t, row)
        if from_origin:
            put_offer(s, chunk, now)
    s.counts[MISSING] -= s.missing[host]
    for kind in range(2):
        t.capacity[s.links[kind] + host] = 0.0


@inlined
def strike_off(s: Swarm, host: int) -> None:
    """Everybody knows that the host is dead: it is in no list, and others import its chunks."""
    rack = s.rack_of[host]
    s.listed[host] = False
    for chunk in range(len(s.chunk_size)):
        if s.seen[chunk, host]:
            s.seen[chunk, host] = False
            s.holders[rack, chunk] -= 1
    s.idle_until[s.first_host[rack] : s.first_host[rack + 1]] = 0.0


@inlined
def tell_again(s: Swarm) -> None:
    """Ranks changed: importers tell their neighbours in the tree of what those racks do not have."""
    for rack in range(len(s.imported)):
        for chunk in range(s.highest[rack]):
            host = importer(s, rack, chunk, 0)
            if host >= 0 and s.had[host, chunk]:
                tell_neighbours(s, host, chunk)


@inlined
def watch_requests(s: Swarm, t: Transfers, now: float) -> None:
    """Requests that are late are hedged, or abandoned and their source put aside."""
    index = 0
    while index < t.counts[0]:
        row = t.active[index]
        index += 1
        host, source, chunk = t.target[row], t.source[row], t.chunk[row]
        crosses = int(s.rack_of[source] != s.rack_of[host])
        deadline = deadline_seconds(s.usual[crosses, host])
        asked = t.progress[row] if crosses else t.asked[row]
        said = verdict(now, asked, t.progress[row], deadline, t.hedged[row])
        if said == HEDGE:
            t.hedged[row] = True
            if s.asked[host, chunk] == 1 and _hedge(s, t, row, now):
                s.counts[HEDGED] += 1
        elif said == ABANDON:
            rack = s.rack_of[host]
            if not crosses:
                s.busy_until[host, source - s.first_host[rack]] = now + 1.0
            else:
                s.shunned[host] = source
                s.shunned_until[host] = now + 1.0
                s.due[rack, chunk] = min(s.due[rack, chunk], now - deadline)
            release(s, t, row)
            s.counts[ABANDONED] += 1
            index = max(0, index - 1)


@inlined
def _hedge(s: Swarm, t: Transfers, row: int, now: float) -> bool:
    """A second source for the chunk: a rack-mate where one has it, else the next one outside."""
    host, chunk = t.target[row], t.chunk[row]
    rack = s.rack_of[host]
    for mate in range(s.first_host[rack], s.first_host[rack + 1]):
        free = admits(False, s.uploads[0, mate], s.uploads_of[0, mate, chunk])
        if s.seen[chunk, mate] and mate != t.source[row] and free and not s.slow[mate] and s.listed[mate]:
            return bool(start(s, t, mate, host, chunk, now) >= 0)
    return s.rack_of[t.source[row]] != rack and import_anyhow(s, t, host, chunk, t.source[row], now)


@inlined
def import_anyhow(s: Swarm, t: Transfers, host: int, chunk: int, but: int, now: float) -> bool:
    """The host asks up the tree, then racks whose summary has the chunk, then the origin; but not ``but``."""
    if s.flying[host] - s.inside[host] >= IMPORTS:
        return False
    rack, racks, origin = s.rack_of[host], s.rack_order.shape[1], len(s.rack_of) - 1
    ways = ways_in(int(s.position[chunk, rack]))
    for place in range(len(ways) - 1 + racks):
        if place < len(ways) - 1:
            other = int(s.rack_order[chunk, ways[place]])
        else:
            other = (place + host) % racks
            if other == rack or not s.summary[other, chunk]:
                continue
        source = importer(s, other, chunk, 0)
        if source < 0 or source == but or (source == s.shunned[host] and now < s.shunned_until[host]):
            continue
        if s.had[source, chunk] and admits(True, s.uploads[1, source], s.uploads_of[1, source, chunk]):
            return bool(start(s, t, source, host, chunk, now) >= 0)
    if s.counts[TAKEN] < ORIGIN_SLOTS and but != origin and start(s, t, origin, host, chunk, now) >= 0:
        s.counts[TAKEN] += 1
        return True
    return False


@inlined
def fall_back(s: Swarm, t: Transfers, lowest_offer: int, now: float) -> None:
    """Chunks that should be in a rack and are not: the hosts of each rank import them when their turn comes."""
    for rack in range(len(s.imported)):
        begins, ends = s.first_host[rack], s.first_host[rack + 1]
        deadline = deadline_seconds(s.usual[1, begins])
        quiet = (now - s.newest[rack]) / deadline
        for chunk in range(_lowest(s, rack), min(len(s.chunk_size), lowest_offer)):
            if s.holders[rack, chunk] > 0:
                continue
            if s.due[rack, chunk] == np.inf:
                elsewhere = False
                for other in range(len(s.imported)):
                    elsewhere = elsewhere or s.summary[other, chunk]
                if is_due(chunk, s.highest[rack] - 1, elsewhere, quiet):
                    s.due[rack, chunk] = now
                continue
            since = s.due[rack, chunk]
            for rank in range(ends - begins):
                host = importer(s, rack, chunk, rank)
                if host < 0 or not may_import(rank, now - since, deadline):
                    break
                since = max(since, s.brought[host])
                if s.alive[host] and not s.had[host, chunk] and s.asked[host, chunk] == 0:
                    s.counts[FALLBACKS] += int(import_anyhow(s, t, host, chunk, -1, now))


@inlined
def _lowest(s: Swarm, rack: int) -> int:
    """Below this chunk the rack's hosts have everything."""
    lowest = len(s.chunk_size)
    for host in range(s.first_host[rack], s.first_host[rack + 1]):
        if s.listed[host]:
            lowest = min(lowest, s.first[host])
    return lowest
