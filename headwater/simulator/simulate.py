"""``simulate``: a scenario's outcome, the same for the same seed."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from headwater.simulator.outcome import Outcome
from headwater.simulator.scenario import Scenario
from headwater.simulator.swarm.run import Faults, Records, run
from headwater.simulator.swarm.state import (
    ABANDONED,
    BUSY,
    FALLBACKS,
    FLIGHTS,
    HEDGED,
    STARTED,
    Floats,
    Swarm,
    capacities,
    swarm,
    swarm_by_reference,
)
from headwater.simulator.transfers import Transfers, transfers, transfers_by_reference

_STEPS_OF_A_CHUNK = 80
_LONGEST_STEP_SECONDS = 0.002


def simulate(scenario: Scenario) -> Outcome:
    """Runs the cast on one core. The step of the rates costs a host less than a hundredth of its time."""
    crashed, slow, late = scenario.struck()
    state = swarm(scenario)
    table = transfers(capacities(scenario), scenario.hosts * FLIGHTS)
    timeline = np.zeros(math.ceil(min(scenario.limit_seconds, 7200.0) / scenario.sample_seconds))
    seconds = math.ceil(scenario.limit_seconds) if scenario.sampled_hosts else 0
    row = -(-scenario.chunks.count // 8)
    room = min(seconds, 2**28 // max(1, scenario.sampled_hosts * row))
    samples = np.zeros((room, scenario.sampled_hosts, row), np.uint8)
    began = time.process_time()
    steps, entries, end = run(
        swarm_by_reference(state),
        transfers_by_reference(table),
        Faults(
            crashed,
            scenario.crash_share,
            scenario.detect_seconds,
            slow,
            scenario.slow_known_seconds if scenario.slow else math.inf,
            late,
            scenario.late_seconds if scenario.late else math.inf,
        ),
        Records(scenario.sample_seconds, timeline, samples),
        scenario.hash_bytes_per_second / scenario.chunk_bytes,
        scenario.step_seconds or step_seconds(scenario),
        scenario.limit_seconds,
        scenario.seed,
    )
    return _outcome(scenario, state, table, timeline[:entries], samples[: math.ceil(end)], steps, began)


def step_seconds(scenario: Scenario) -> float:
    """An eightieth of the time of eight chunks side by side on one NIC, at most 2 ms."""
    return min(_LONGEST_STEP_SECONDS, 8 * scenario.chunk_bytes / scenario.nic_bytes_per_second / _STEPS_OF_A_CHUNK)


def _outcome(
    scenario: Scenario,
    state: Swarm,
    table: Transfers,
    timeline: Floats,
    samples: NDArray[np.uint8],
    steps: int,
    began: float,
) -> Outcome:
    crashed, slow, late = scenario.struck()
    finish = state.finish.copy()
    finish[crashed] = np.nan
    down, reads = int(state.links[3]), int(state.links[4])
    return Outcome(
        finish_seconds=finish,
        crashed=crashed,
        slow=slow,
        late=late,
        origin_bytes=float(table.carried[int(state.links[0]) + scenario.hosts]),
        inter_rack_bytes=float(table.carried[down : down + scenario.racks].sum()),
        disk_read_bytes=float(table.carried[reads : reads + scenario.hosts].sum()) if reads >= 0 else 0.0,
        copies_per_rack=state.imported / scenario.chunks.count,
        timeline_seconds=np.arange(len(timeline), dtype=np.float64) * scenario.sample_seconds,
        timeline_share=timeline,
        samples=samples,
        steps=steps,
        transfers=int(state.counts[STARTED]),
        busy=int(state.counts[BUSY]),
        hedged=int(state.counts[HEDGED]),
        abandoned=int(state.counts[ABANDONED]),
        fallbacks=int(state.counts[FALLBACKS]),
        cpu_seconds=time.process_time() - began,
    )
