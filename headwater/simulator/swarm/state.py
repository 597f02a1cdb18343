"""All that the peers of a cast know and do, as arrays. Hosts are numbered rack by rack; the origin is number ``hosts``.

Shapes by H hosts, R racks, C chunks, M hosts of the largest rack.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.rules.cast.fallback import ORIGIN_SLOTS
from headwater.rules.cast.importers import key_of, ranked
from headwater.simulator.compiled import Reference, by_reference
from headwater.simulator.scenario import Scenario

FLIGHTS = 32
"""Chunks on their way to a host in all: room, not a rule."""
TOLD = 512
"""Chunks that a host was told of by others outside and did not ask for yet: room, not a rule."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NEXT_OFFER, TAKEN, OFFERED, STARTED, BUSY, HEDGED, ABANDONED, FALLBACKS, MISSING = range(9)
"""Places in ``Swarm.counts``."""


class Swarm(NamedTuple):
    first_host: Ints
    """(R + 1) of each rack."""
    rack_of: Ints
    """(H + 1); -1: the origin."""
    rack_order: NDArray[np.int16]
    """(C, R) racks in the order of the chunk's tree."""
    position: NDArray[np.int16]
    """(C, R) of each rack in that order."""
    ranking: NDArray[np.int16]
    """(C, H) the hosts of each rack, at the rack's place, in the order in which they are the chunk's importers."""
    had: NDArray[np.bool_]
    """(H + 1, C)"""
    asked: NDArray[np.int16]
    """(H, C) requests under way."""
    seen: NDArray[np.bool_]
    """(C, H) who has a chunk, as the rack-mates know."""
    holders: NDArray[np.int16]
    """(R, C) how many have it, as the rack knows."""
    first: Ints
    """(H) no higher than the lowest missing chunk."""
    missing: Ints
    """(H)"""
    highest: Ints
    """(R) number of the highest chunk in the rack, plus 1."""
    newest: Floats
    """(R) when something new came into the rack."""
    due: Floats
    """(R, C) since when a chunk should have been in the rack; inf: not yet."""
    summary: NDArray[np.bool_]
    """(R, C) what each rack has, by the last summaries."""
    alive: NDArray[np.bool_]
    """(H + 1)"""
    listed: NDArray[np.bool_]
    """(H + 1) in the view: joined, and not known to be dead."""
    slow: NDArray[np.bool_]
    """(H) known to be slow."""
    flights: Ints
    """(H, FLIGHTS) rows of the transfers to a host."""
    flying: Ints
    """(H) how many."""
    inside: Ints
    """(H) of these, from rack-mates."""
    load: NDArray[np.int16]
    """(H, M) of these, from each rack-mate."""
    busy_until: Floats
    """(H, M) until when a rack-mate is not asked."""
    uploads: Ints
    """(2, H + 1) under way: inside the rack, and across."""
    uploads_of: NDArray[np.uint8]
    """(2, H + 1, C) of each chunk."""
    told_chunk: Ints
    """(H, TOLD) what others outside have for this host."""
    told_source: Ints
    told: Ints
    """(H) how many."""
    shunned: Ints
    """(H) the last host outside that was abandoned."""
    shunned_until: Floats
    idle_until: Floats
    """(H) nothing to ask for until then."""
    brought: Floats
    """(H) when it last brought a chunk into its rack."""
    usual: Floats
    """(2, H) seconds that a chunk takes, in the rack and from outside: moving averages, for the peer's medians."""
    news_time: Floats
    """(2, room) verified chunks that are not yet announced, in the rack and across: rings."""
    news_host: Ints
    news_chunk: Ints
    news_ends: Ints
    """(2, 2) begin and end of each ring."""
    offer_chunk: Ints
    """(ORIGIN_SLOTS) what the origin has offered and nobody fetches yet."""
    offer_time: Floats
    offer_attempt: Ints
    attempts: Ints
    """(C) how often each chunk was offered."""
    received: NDArray[np.int32]
    """(H, C) how many chunks a host had when it got this one; (1, 1) where disks are no limit."""
    finish: Floats
    """(H) seconds; nan: not complete."""
    imported: Ints
    """(R) chunks that came into the rack."""
    counts: Ints
    chunk_size: Floats
    """(C) bytes."""
    links: Ints
    """Number of the first link of each kind: NIC up, down, rack up, down, disk read, write, both; -1: no limit."""
    seconds: Floats
    """have, across, busy, gossip: of the scenario."""
    cached: Floats
    """(1) chunks that the page cache holds."""


class SwarmReference(Reference):
    """``Swarm`` for compiled functions."""


class SwarmKind(types.StructRef):
    """Its type."""


swarm_by_reference = by_reference(SwarmReference, SwarmKind, Swarm)


def swarm(scenario: Scenario) -> Swarm:
    """Everybody who is not late has joined, and nobody has a chunk but the origin."""
    hosts, racks, chunks = scenario.hosts, scenario.racks, scenario.chunks.count
    rack_of = scenario.rack_of()
    first_host = np.searchsorted(rack_of, np.arange(racks + 1)).astype(np.int64)
    largest = int(np.diff(first_host).max())
    numbers = np.arange(chunks, dtype=np.int64)
    rack_order = ranked(numbers, np.array([key_of(1, f"rack {r}") for r in range(racks)], np.uint64))
    keys = np.array([key_of(1, f"host {h}") for h in range(hosts)], np.uint64)
    ranking = [ranked(numbers, keys[a:b]) + a for a, b in pairwise(first_host)]
    had = np.zeros((hosts + 1, chunks), np.bool_)
    had[hosts] = True
    alive = np.ones(hosts + 1, np.bool_)
    alive[scenario.struck()[2]] = False
    disk = scenario.page_cache_bytes is not None
    room = hosts * 64 + 4 * chunks
    spans = np.array([scenario.chunks.span(chunk)[1] for chunk in (0, chunks - 1)])
    chunk_size = np.full(chunks, float(spans[0]))
    chunk_size[-1] = spans[1]
    return Swarm(
        first_host=first_host,
        rack_of=np.append(rack_of, -1),
        rack_order=rack_order.astype(np.int16),
        position=np.argsort(rack_order, axis=1).astype(np.int16),
        ranking=np.concatenate(ranking, axis=1).astype(np.int16),
        had=had,
        asked=np.zeros((hosts, chunks), np.int16),
        seen=np.zeros((chunks, hosts), np.bool_),
        holders=np.zeros((racks, chunks), np.int16),
        first=np.zeros(hosts, np.int64),
        missing=np.full(hosts, chunks, np.int64),
        highest=np.zeros(racks, np.int64),
        newest=np.zeros(racks),
        due=np.full((racks, chunks), np.inf),
        summary=np.zeros((racks, chunks), np.bool_),
        alive=alive,
        listed=alive.copy(),
        slow=np.zeros(hosts, np.bool_),
        flights=np.zeros((hosts, FLIGHTS), np.int64),
        flying=np.zeros(hosts, np.int64),
        inside=np.zeros(hosts, np.int64),
        load=np.zeros((hosts, largest), np.int16),
        busy_until=np.zeros((hosts, largest)),
        uploads=np.zeros((2, hosts + 1), np.int64),
        uploads_of=np.zeros((2, hosts + 1, chunks), np.uint8),
        told_chunk=np.zeros((hosts, TOLD), np.int64),
        told_source=np.zeros((hosts, TOLD), np.int64),
        told=np.zeros(hosts, np.int64),
        shunned=np.full(hosts, -1, np.int64),
        shunned_until=np.zeros(hosts),
        idle_until=np.zeros(hosts),
        brought=np.zeros(hosts),
        usual=np.zeros((2, hosts)),
        news_time=np.zeros((2, room)),
        news_host=np.zeros((2, room), np.int64),
        news_chunk=np.zeros((2, room), np.int64),
        news_ends=np.zeros((2, 2), np.int64),
        offer_chunk=np.zeros(ORIGIN_SLOTS, np.int64),
        offer_time=np.zeros(ORIGIN_SLOTS),
        offer_attempt=np.zeros(ORIGIN_SLOTS, np.int64),
        attempts=np.zeros(chunks, np.int64),
        received=np.zeros((hosts, chunks) if disk else (1, 1), np.int32),
        finish=np.full(hosts, np.nan),
        imported=np.zeros(racks, np.int64),
        counts=np.array([0] * MISSING + [hosts * chunks], np.int64),
        chunk_size=chunk_size,
        links=_links(scenario)[0],
        seconds=np.array(
            [scenario.have_seconds, scenario.across_seconds, scenario.busy_seconds, scenario.gossip_seconds]
        ),
        cached=np.array([(scenario.page_cache_bytes or 0.0) / scenario.chunk_bytes]),
    )


def capacities(scenario: Scenario) -> Floats:
    """Bytes per second of each link, slow hosts' lowered."""
    return _links(scenario)[1]


def _links(scenario: Scenario) -> tuple[Ints, Floats]:
    hosts, racks = scenario.hosts, scenario.racks
    nic = np.full(hosts + 1, scenario.nic_bytes_per_second)
    slow = scenario.struck()[1]
    sizes = np.bincount(scenario.rack_of(), minlength=racks)
    uplinks = sizes.astype(np.float64) * scenario.nic_bytes_per_second / scenario.oversubscription
    nic[slow] *= scenario.slow_share
    kinds: list[Floats | None] = [nic, nic, uplinks, uplinks]
    for rate in (
        scenario.disk_read_bytes_per_second,
        scenario.disk_write_bytes_per_second,
        scenario.disk_bytes_per_second,
    ):
        disk = None if rate is None else np.full(hosts + 1, rate)
        if disk is not None:
            disk[slow] *= scenario.slow_share
        kinds.append(disk)
    firsts, at = [], 0
    for kind in kinds:
        firsts.append(-1 if kind is None else at)
        at += 0 if kind is None else len(kind)
    return np.array(firsts, np.int64), np.concatenate([kind for kind in kinds if kind is not None])
