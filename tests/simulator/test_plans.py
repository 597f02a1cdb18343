"""Plans against the closed forms that books and papers give them, and the binomial pipeline against a run of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.cast.bounds import binding, bounds
from headwater.rules.cast.chunks import MIB
from headwater.simulator.plans import doubling_rounds, fleet_of, plans
from headwater.simulator.scenario import Scenario

CHUNKS = 64
QUIET = Scenario(
    hosts=30,
    racks=5,
    size_bytes=CHUNKS * MIB,
    chunk_bytes=MIB,
    nic_bytes_per_second=MIB,  # so that a chunk takes a second: τ = 1
    oversubscription=1.0,
    hash_bytes_per_second=1e12,
)


def by_name(scenario):
    return {plan.name: plan for plan in plans(scenario)}


@pytest.mark.parametrize(
    ("name", "seconds", "copies"),
    [
        ("star", 30 * CHUNKS, 6),
        ("whole file, doubling", 5 * CHUNKS, None),  # 2⁵ ≥ 31 nodes
        ("binary tree", 2 * (CHUNKS + 3), pytest.approx(5, abs=1)),  # 2 + 4 + 8 + 16 hosts, dealt out to racks
        ("one chain, rack by rack", CHUNKS + 29, 1),
        ("chains by rack, ideal", CHUNKS + 5 + 6 - 1, 1),
        ("binomial pipeline, ideal", CHUNKS + 4, None),
    ],
)
def test_a_plan_takes_what_its_closed_form_says(name, seconds, copies):
    plan = by_name(QUIET)[name]

    assert plan.quiet_seconds == pytest.approx(seconds)
    assert plan.copies_per_rack == copies


def test_chains_that_fork_send_each_chunk_twice_at_each_rack():
    seconds = by_name(QUIET)["chains that fork at each rack"].quiet_seconds

    assert 2 * CHUNKS <= seconds <= 2 * (CHUNKS + 5 + 6)


@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_the_binomial_pipeline_reaches_its_closed_form(dimensions):
    """On a hypercube: in each slot all nodes swap along one dimension, the newest chunk that they have, in turn."""
    nodes, chunks = 2**dimensions, 20
    had = np.zeros((nodes, chunks), np.bool_)
    slots = 0
    while not had[1:].all():
        before = had.copy()
        for node in range(nodes):
            other = node ^ (1 << (slots % dimensions))
            mine = np.flatnonzero(before[node]) if node else np.arange(min(slots, chunks - 1) + 1)
            if other and len(mine):
                had[other, mine[-1]] = True
        slots += 1
        assert slots < 10 * chunks

    assert slots == chunks + math.floor(math.log2(nodes - 1))


def test_racks_slow_the_last_rounds_of_doubling():
    bar = fleet_of(Scenario(oversubscription=1.0))

    assert doubling_rounds(bar) == 10  # 2¹⁰ ≥ 1001
    # At 8:1 five links' worth enter a rack. Of 256 senders 9.83 reach into each, of the last 489 18.78.
    assert doubling_rounds(replace(bar, oversubscription=8)) == pytest.approx(8 + 9.8304 / 5 + 18.7776 / 5)


def test_racks_bind_a_tree_that_does_not_know_them():
    plan = by_name(Scenario(oversubscription=8.0))["binary tree"]

    assert plan.quiet_seconds >= plan.copies_per_rack * 6.4  # what one copy into each rack takes at least
    assert plan.quiet_seconds < plan.copies_per_rack * 6.4 * 1.1


def test_a_disk_that_is_slower_than_the_link_slows_a_chain():
    seconds = by_name(replace(QUIET, disk_write_bytes_per_second=MIB / 2))["one chain, rack by rack"].quiet_seconds

    assert seconds == pytest.approx(2 * (CHUNKS + 29))


def test_all_below_a_dead_first_hop_are_cut_off():
    found = {name: plan.first_hop_cut_off for name, plan in by_name(QUIET).items()}

    assert found["star"] == 0
    assert found["one chain, rack by rack"] == 29
    assert found["chains that fork at each rack"] == 29
    assert found["binary tree"] == 14  # of 30, half are below it


def test_a_chain_is_as_slow_as_its_slowest_host_and_waits_for_each_mend():
    chain = "one chain, rack by rack"
    slow = by_name(replace(QUIET, slow=1, slow_share=0.25))[chain]
    dead = by_name(replace(QUIET, crashes=1, detect_seconds=7.0))[chain]

    assert slow.seconds == pytest.approx(4 * CHUNKS, rel=0.5)
    assert slow.seconds > 4 * CHUNKS
    assert dead.seconds == pytest.approx(dead.quiet_seconds + 7, abs=2)
    assert 0 < dead.cut_off < 30


DISK = st.none() | st.floats(1e8, 1e10)


@settings(max_examples=50, deadline=None)
@given(
    hosts=st.integers(1, 60),
    racks=st.integers(1, 6),
    chunks=st.integers(1, 50),
    odd=st.integers(1, MIB),
    oversubscription=st.floats(1, 20),
    slow=st.integers(0, 5),
    crashes=st.integers(0, 5),
    seed=st.integers(0, 9),
    disks=st.tuples(DISK, DISK, DISK, st.sampled_from((None, 0))),
)
def test_no_plan_is_faster_than_the_bounds(hosts, racks, chunks, odd, oversubscription, slow, crashes, seed, disks):
    if racks > hosts or slow + crashes >= hosts:
        return
    scenario = Scenario(
        hosts=hosts,
        racks=racks,
        size_bytes=(chunks - 1) * MIB + odd,
        chunk_bytes=MIB,
        oversubscription=oversubscription,
        hash_bytes_per_second=1e15,
        slow=slow,
        crashes=crashes,
        seed=seed,
        disk_read_bytes_per_second=disks[0],
        disk_write_bytes_per_second=disks[1],
        disk_bytes_per_second=disks[2],
        page_cache_bytes=disks[3],
    )
    network = binding(bounds(scenario.size_bytes, fleet_of(scenario), copies_per_rack=0))[0].seconds
    for plan in plans(scenario):
        assert plan.quiet_seconds >= network * (1 - 1e-9)
        if plan.copies_per_rack is not None and "ideal" not in plan.name:
            fleet = fleet_of(replace(scenario, slow=0))
            floor = binding(bounds(scenario.size_bytes, fleet, copies_per_rack=plan.copies_per_rack))[0].seconds
            assert plan.quiet_seconds >= floor * (1 - 1e-9)
        if plan.seconds is not None and not crashes:
            assert plan.seconds >= network * (1 - 1e-9)
