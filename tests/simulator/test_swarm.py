"""The bars of the simulated cast, with a tenth of the fleet and fewer chunks: bench/run cast-sim has the full size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from headwater.rules.cast.chunks import MIB
from headwater.rules.errors import BadSettings
from headwater.simulator.outcome import Outcome
from headwater.simulator.scenario import Scenario
from headwater.simulator.simulate import simulate

CHUNK = 16 * MIB
FLEET = {"hosts": 100, "racks": 5, "size_bytes": 400 * CHUNK}
FLOOR_SECONDS = 400 * CHUNK / 3.125e9
FILL_SECONDS = 0.6
"""To fill the pipeline and to empty it: five hops of the tree and six generations in the rack, of about 50 ms each."""


@pytest.fixture(scope="module")
def quiet() -> Outcome:
    return simulate(Scenario(**FLEET))


def healthy(outcome: Outcome) -> np.ndarray:
    struck = np.concatenate([outcome.crashed, outcome.slow, outcome.late])
    return np.delete(outcome.finish_seconds, struck)


@pytest.mark.parametrize("oversubscription", [1.0, 8.0])
def test_everybody_is_complete_soon_after_the_floor_and_each_chunk_enters_a_rack_once(oversubscription: float) -> None:
    outcome = simulate(Scenario(**FLEET, oversubscription=oversubscription))
    assert np.isfinite(outcome.finish_seconds).all()
    assert FLOOR_SECONDS < outcome.healthy_seconds() < 1.05 * FLOOR_SECONDS + FILL_SECONDS
    assert outcome.origin_bytes <= 1.02 * 400 * CHUNK
    assert outcome.inter_rack_bytes <= 1.05 * 5 * 400 * CHUNK
    assert outcome.copies_per_rack.min() >= 1.0


def test_a_cast_goes_the_same_way_with_the_same_seed(quiet: Outcome) -> None:
    again = simulate(Scenario(**FLEET))
    np.testing.assert_array_equal(again.finish_seconds, quiet.finish_seconds)
    assert simulate(Scenario(**FLEET, seed=2)).healthy_seconds() != quiet.healthy_seconds()


def test_survivors_lose_less_than_a_second_when_others_crash_half_way(quiet: Outcome) -> None:
    outcome = simulate(Scenario(**FLEET, crashes=5))
    assert np.isnan(outcome.finish_seconds[outcome.crashed]).all()
    assert np.isfinite(healthy(outcome)).all()
    assert outcome.abandoned > 0
    assert outcome.healthy_seconds() <= quiet.healthy_seconds() + 1


def test_survivors_get_the_last_chunks_when_others_crash_near_the_end(quiet: Outcome) -> None:
    outcome = simulate(Scenario(**FLEET, crashes=5, crash_share=0.95))
    assert np.isfinite(healthy(outcome)).all()
    assert outcome.healthy_seconds() <= quiet.healthy_seconds() + 1.5


def test_slow_hosts_delay_nobody_else(quiet: Outcome) -> None:
    outcome = simulate(Scenario(**FLEET, slow=5))
    assert outcome.healthy_seconds() <= quiet.healthy_seconds() + 1
    assert outcome.finish_seconds[outcome.slow].min() > 4 * FLOOR_SECONDS


def test_late_joiners_are_fed_by_their_rack() -> None:
    outcome = simulate(Scenario(**FLEET, late=5, late_seconds=1.0))
    assert outcome.inter_rack_bytes <= 1.05 * 5 * 400 * CHUNK
    assert outcome.finish_seconds[outcome.late].min() > 1.0 + FLOOR_SECONDS
    assert outcome.finish_seconds[outcome.late].max() < 1.0 + 1.1 * FLOOR_SECONDS + 2 * FILL_SECONDS


def test_disks_are_the_floor_where_they_are_slower_than_the_network() -> None:
    scenario = Scenario(**FLEET, disk_read_bytes_per_second=1e9, disk_write_bytes_per_second=1e9, page_cache_bytes=0.0)
    outcome = simulate(scenario)
    assert 400 * CHUNK / 1e9 < outcome.healthy_seconds() < 1.06 * 400 * CHUNK / 1e9 + 3 * FILL_SECONDS
    # All but the origin's own were read from the disks of others: as many copies as there are hosts, but one.
    assert outcome.disk_read_bytes == pytest.approx(99 * 400 * CHUNK, rel=0.01)


def test_what_is_in_the_page_cache_is_not_read_from_disk() -> None:
    disks = {"disk_read_bytes_per_second": 1e9, "disk_write_bytes_per_second": 3e9}
    cached = simulate(Scenario(**FLEET, **disks, page_cache_bytes=200.0 * CHUNK))
    assert cached.disk_read_bytes < 0.02 * 99 * 400 * CHUNK


def test_a_rack_whose_uplink_is_the_limit_imports_each_chunk_about_once() -> None:
    scenario = Scenario(hosts=24, racks=4, size_bytes=256 * MIB, chunk_bytes=MIB, nic_bytes_per_second=5e6)
    outcome = simulate(scenario)
    floor = 256 * MIB / (6 * 5e6 / 8)
    assert floor < outcome.healthy_seconds() < 1.2 * floor
    assert outcome.inter_rack_bytes <= 1.05 * 4 * 256 * MIB


def test_the_timeline_rises_and_the_samples_are_the_hosts_bits() -> None:
    outcome = simulate(Scenario(**FLEET, sampled_hosts=3))
    assert (np.diff(outcome.timeline_share) >= 0).all()
    assert outcome.samples.shape[1:] == (3, 50)
    counts = [np.unpackbits(second, axis=1).sum(axis=1) for second in outcome.samples]
    assert counts[0].sum() == 0
    assert all((later >= earlier).all() for earlier, later in pairwise(counts))
    # At a second both speak of the same instant: three hosts of a hundred, near their fleet's mean.
    assert counts[1].mean() / 400 == pytest.approx(outcome.timeline_share[10], abs=0.1)


@pytest.mark.parametrize("wrong", [{"racks": 0}, {"racks": 11}, {"crashes": 11}, {"size_bytes": 0}, {"slow_share": 0}])
def test_a_scenario_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadSettings):
        Scenario(**{"hosts": 10, "racks": 2, **wrong})
