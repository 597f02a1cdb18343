"""Whatever is simulated, no swarm is faster than the bounds, and it sends no less than it has to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.cast.bounds import binding, bounds, slow_floor
from headwater.rules.cast.chunks import MIB
from headwater.simulator.plans import fleet_of
from headwater.simulator.scenario import Scenario
from headwater.simulator.simulate import simulate

RATES = st.none() | st.floats(50e6, 5e9)


@st.composite
def scenarios(draw):
    racks = draw(st.integers(1, 4))
    hosts = draw(st.integers(racks, 24))
    slow = draw(st.integers(0, hosts // 4))
    return Scenario(
        hosts=hosts,
        racks=racks,
        size_bytes=draw(st.integers(1, 60 * MIB)),
        chunk_bytes=draw(st.sampled_from((MIB, 4 * MIB))),
        nic_bytes_per_second=draw(st.floats(50e6, 5e9)),
        oversubscription=draw(st.floats(1, 12)),
        disk_read_bytes_per_second=draw(RATES),
        disk_write_bytes_per_second=draw(RATES),
        disk_bytes_per_second=draw(RATES),
        page_cache_bytes=draw(st.sampled_from((None, 0))),
        hash_bytes_per_second=draw(st.floats(100e6, 20e9)),
        crashes=draw(st.integers(0, (hosts - slow - 1) // 2)),
        crash_share=draw(st.floats(0, 1)),
        slow=slow,
        slow_share=draw(st.floats(0.2, 1)),
        seed=draw(st.integers(0, 99)),
    )


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_no_host_is_faster_than_the_floor(scenario):
    outcome = simulate(scenario)
    fleet = replace(fleet_of(scenario), page_cache=scenario.page_cache_bytes != 0 or scenario.crashes > 0)
    floor = binding(bounds(scenario.size_bytes, fleet))[0].seconds

    assert outcome.healthy_seconds() >= floor * (1 - 1e-6)
    if scenario.slow and np.isfinite(outcome.finish_seconds[outcome.slow]).any():
        assert np.nanmin(outcome.finish_seconds[outcome.slow]) >= slow_floor(scenario.size_bytes, fleet) * (1 - 1e-6)


@settings(max_examples=20, deadline=None)
@given(scenarios())
def test_every_rack_gets_the_file_once_at_least_and_every_living_host_all_of_it(scenario):
    outcome = simulate(scenario)
    dead = np.isin(np.arange(scenario.hosts), outcome.crashed)

    assert not np.isnan(outcome.finish_seconds[~dead]).any()
    assert outcome.origin_bytes >= scenario.size_bytes * (1 - 1e-6)
    living = [rack for rack in range(scenario.racks) if not dead[scenario.rack_of() == rack].all()]
    assert (outcome.copies_per_rack[living] >= 1).all()
    assert outcome.inter_rack_bytes >= len(living) * scenario.size_bytes * (1 - 1e-6)
    assert outcome.timeline_share == pytest.approx(np.sort(outcome.timeline_share))
