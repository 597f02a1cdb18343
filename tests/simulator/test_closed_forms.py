"""Cases so small that the time is known by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.cast.chunks import MIB
from headwater.rules.cast.fallback import ORIGIN_SLOTS
from headwater.simulator.outcome import Outcome
from headwater.simulator.scenario import Scenario
from headwater.simulator.simulate import simulate

NIC = 100e6
TAU = MIB / NIC
STEP = TAU / 20


def cast(hosts: int, racks: int, chunks: int, **others: float) -> Outcome:
    """Without delays, so that only bandwidth counts."""
    scenario = Scenario(
        hosts=hosts,
        racks=racks,
        size_bytes=chunks * MIB,
        chunk_bytes=MIB,
        nic_bytes_per_second=NIC,
        have_seconds=0.0,
        across_seconds=0.0,
        step_seconds=STEP,
        hash_bytes_per_second=1e15,
        **others,  # type: ignore[arg-type]
    )
    return simulate(scenario)


def test_one_host_takes_the_file_at_the_rate_of_its_link() -> None:
    # Four imports at a time keep the link full: k tau, and of each four chunks up to one step is lost.
    outcome = cast(1, 1, 64, oversubscription=1.0)
    assert 64 * TAU <= outcome.healthy_seconds() + 1e-9 <= 64 * TAU * 1.02 + 3 * STEP


def test_one_chunk_goes_to_the_importers_one_after_the_other() -> None:
    # A chain of two racks of one host: 2 tau. A third rack is the first one's child too, and both share its uplink:
    # tau + 2 tau.
    assert cast(2, 2, 1, oversubscription=1.0).healthy_seconds() == pytest.approx(2 * TAU, abs=4 * STEP)
    assert cast(3, 3, 1, oversubscription=1.0).healthy_seconds() == pytest.approx(3 * TAU, abs=6 * STEP)


def test_one_chunk_in_a_rack_is_a_star_as_wide_as_a_source_serves() -> None:
    # One of five gets it from the origin; the other four ask it at once, and it serves four of one chunk: tau + 4 tau.
    assert cast(5, 1, 1).healthy_seconds() == pytest.approx((8 / 5 + 4) * TAU, abs=6 * STEP)


def test_the_racks_uplink_limits_a_rack() -> None:
    # Four hosts behind an eighth of four links: half a link, so 2 tau a chunk.
    outcome = cast(4, 1, 128, oversubscription=8.0)
    assert 128 * 2 * TAU < outcome.healthy_seconds() < 128 * 2 * TAU * 1.02 + 20 * TAU


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 40),
    st.sampled_from([1.0, 4.0]),
    st.integers(1, 5),
)
@settings(deadline=None, max_examples=60)
def test_no_cast_is_faster_than_its_bounds(hosts: int, racks: int, chunks: int, over: float, seed: int) -> None:
    racks = min(racks, hosts)
    outcome = cast(hosts, racks, chunks, oversubscription=over, seed=seed)
    size = chunks * MIB
    smallest = np.bincount(np.arange(hosts) * racks // hosts).min()
    assert outcome.healthy_seconds() >= size / NIC - 1e-9
    assert outcome.healthy_seconds() >= size * over / (smallest * NIC) - 1e-9
    assert outcome.healthy_seconds() >= hosts * size / ((hosts + 1) * NIC) - 1e-9
    assert outcome.origin_bytes >= size - 1
    assert outcome.origin_bytes <= size + ORIGIN_SLOTS * MIB
    assert outcome.inter_rack_bytes >= racks * size - 1
