"""What happens to a transfer of the swarm: it starts, ends well, or is broken off; and who hears of its chunk."""

from __future__ import annotations

from headwater.rules.cast.importers import FANOUT
from headwater.simulator.compiled import children, inlined
from headwater.simulator.swarm.state import (
    FLIGHTS,
    MISSING,
    STARTED,
    TAKEN,
    TOLD,
    Swarm,
)
from headwater.simulator.transfers import Transfers, begin, end, over


@inlined
def start(s: Swarm, t: Transfers, source: int, target: int, chunk: int, now: float) -> int:
    """The target fetches the chunk from the source: the transfer's row, or -1 where it can have no more."""
    if s.flying[target] == FLIGHTS:
        return -1
    row = begin(t, source, target, chunk, s.chunk_size[chunk], now)
    crosses = int(s.rack_of[source] != s.rack_of[target])
    over(t, row, s.links[0] + source)
    over(t, row, s.links[1] + target)
    if crosses:
        if s.rack_of[source] >= 0:
            over(t, row, s.links[2] + s.rack_of[source])
        over(t, row, s.links[3] + s.rack_of[target])
    else:
        s.inside[target] += 1
        s.load[target, source - s.first_host[s.rack_of[source]]] += 1
    _over_disks(s, t, row, source, target, chunk)
    s.asked[target, chunk] += 1
    s.uploads[crosses, source] += 1
    s.uploads_of[crosses, source, chunk] += 1
    s.flights[target, s.flying[target]] = row
    s.flying[target] += 1
    s.counts[STARTED] += 1
    return int(row)


@inlined
def _over_disks(s: Swarm, t: Transfers, row: int, source: int, target: int, chunk: int) -> None:
    origin = len(s.rack_of) - 1
    from_disk = source == origin
    if not from_disk and len(s.received) > 1:
        since = len(s.chunk_size) - s.missing[source] - s.received[source, chunk]
        from_disk = since >= s.cached[0]
    if s.links[4] >= 0 and from_disk:
        over(t, row, s.links[4] + source)
    if s.links[5] >= 0:
        over(t, row, s.links[5] + target)
    if s.links[6] >= 0:
        if from_disk:
            over(t, row, s.links[6] + source)
        over(t, row, s.links[6] + target)


@inlined
def release(s: Swarm, t: Transfers, row: int) -> None:
    """The transfer is over, however it went."""
    source, target, chunk = t.source[row], t.target[row], t.chunk[row]
    crosses = int(s.rack_of[source] != s.rack_of[target])
    if not crosses:
        s.inside[target] -= 1
        s.load[target, source - s.first_host[s.rack_of[source]]] -= 1
    s.asked[target, chunk] -= 1
    s.uploads[crosses, source] -= 1
    s.uploads_of[crosses, source, chunk] -= 1
    if s.rack_of[source] < 0:
        s.counts[TAKEN] -= 1
    for place in range(s.flying[target]):
        if s.flights[target, place] == row:
            s.flying[target] -= 1
            s.flights[target, place] = s.flights[target, s.flying[target]]
            break
    s.idle_until[target] = 0.0
    end(t, row)


@inlined
def complete(s: Swarm, t: Transfers, row: int, now: float) -> None:
    """The target has the chunk: other requests for it are broken off, and it is announced after a while."""
    source, target, chunk = t.source[row], t.target[row], t.chunk[row]
    rack = s.rack_of[target]
    crosses = int(s.rack_of[source] != rack)
    seconds, usual = now - t.asked[row], s.usual[crosses, target]
    s.usual[crosses, target] = seconds if usual == 0.0 else 0.9 * usual + 0.1 * seconds
    release(s, t, row)
    if s.had[target, chunk]:
        return
    while s.asked[target, chunk] > 0:
        for place in range(s.flying[target]):
            if t.chunk[s.flights[target, place]] == chunk:
                release(s, t, s.flights[target, place])
                break
    s.had[target, chunk] = True
    s.missing[target] -= 1
    s.counts[MISSING] -= 1
    if len(s.received) > 1:
        s.received[target, chunk] = len(s.chunk_size) - s.missing[target]
    if s.missing[target] == 0:
        s.finish[target] = now
    while s.first[target] < len(s.chunk_size) and s.had[target, s.first[target]]:
        s.first[target] += 1
    if crosses:
        s.imported[rack] += 1
        s.brought[target] = now
    _announce_later(s, 0, target, chunk, now + s.seconds[0])
    if crosses or importer(s, rack, chunk, 0) == target:
        _announce_later(s, 1, target, chunk, now + s.seconds[1])


@inlined
def _announce_later(s: Swarm, across: int, host: int, chunk: int, when: float) -> None:
    at = s.news_ends[across, 1] % s.news_time.shape[1]
    s.news_time[across, at] = when
    s.news_host[across, at] = host
    s.news_chunk[across, at] = chunk
    s.news_ends[across, 1] += 1


@inlined
def announce(s: Swarm, now: float) -> None:
    """Rack-mates and tree neighbours hear of what was verified a while ago."""
    room = s.news_time.shape[1]
    for across in range(2):
        while s.news_ends[across, 0] < s.news_ends[across, 1]:
            at = s.news_ends[across, 0] % room
            if s.news_time[across, at] > now:
                break
            s.news_ends[across, 0] += 1
            host, chunk = s.news_host[across, at], s.news_chunk[across, at]
            if not s.listed[host]:
                continue
            if across:
                tell_neighbours(s, host, chunk)
                continue
            rack = s.rack_of[host]
            if s.holders[rack, chunk] == 0:
                s.newest[rack] = now
            s.seen[chunk, host] = True
            s.holders[rack, chunk] += 1
            s.highest[rack] = max(s.highest[rack], chunk + 1)


@inlined
def tell_neighbours(s: Swarm, host: int, chunk: int) -> None:
    """The importers of the next racks of the tree hear that this host has the chunk, and the one of the rack before."""
    position = int(s.position[chunk, s.rack_of[host]])
    for child in children(position, s.rack_order.shape[1]):
        tell(s, importer(s, s.rack_order[chunk, child], chunk, 0), host, chunk)
    if position > 0:
        tell(s, importer(s, s.rack_order[chunk, (position - 1) // FANOUT], chunk, 0), host, chunk)


@inlined
def tell(s: Swarm, host: int, source: int, chunk: int) -> None:
    """A host hears that somebody outside its rack has a chunk for it; one that has it or is full lets it pass."""
    if host >= 0 and not s.had[host, chunk] and s.told[host] < TOLD:
        s.told_chunk[host, s.told[host]] = chunk
        s.told_source[host, s.told[host]] = source
        s.told[host] += 1


@inlined
def importer(s: Swarm, rack: int, chunk: int, rank: int) -> int:
    """The host of this rank among the rack's live, not slow hosts; -1: there are not so many."""
    found = 0
    for place in range(s.first_host[rack], s.first_host[rack + 1]):
        host = s.ranking[chunk, place]
        if s.listed[host] and not s.slow[host]:
            if found == rank:
                return int(host)
            found += 1
    return -1
