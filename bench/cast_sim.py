"""cast-sim: a cast to 1,000 simulated hosts beside its floor: crashes, slow hosts, slow disks, the broker's load.

The peer's own rules under a fluid network (headwater/simulator): 25 racks, 100 GB (1e9 bytes each) in chunks of 16
MiB, 25 Gbps of payload each way, racks' uplinks from 1:1 to 8:1. The floor is the file over the NIC, 32.00 s, or over
the disk where that is slower. Crashes: 20 hosts when half of all bytes are there, known to nobody but by their silence;
the slow: 20 hosts at a quarter of the rate; both at 8:1, beside the same cast undisturbed. 1 TB: disks read and write 3
GB/s at once, and every chunk that is served is read. ``sim_seconds``: CPU seconds of one core, without compiling.
"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table

from headwater.rules.cast.chunks import MIB
from headwater.simulator.broker import busiest, rack_hosts
from headwater.simulator.outcome import Outcome
from headwater.simulator.scenario import Scenario
from headwater.simulator.simulate import simulate

OWN_STACK = True
FULL = Scenario()
QUICK = Scenario(hosts=100, racks=5, size_bytes=500 * 16 * MIB)
OVERSUBSCRIPTIONS = (1, 2, 4, 8)
_DISK = 3e9


def run(quick: bool) -> dict[str, object]:
    simulate(Scenario(hosts=4, racks=2, size_bytes=MIB, chunk_bytes=MIB))  # compiles
    base = QUICK if quick else FULL
    struck = base.hosts // 50
    table = Table("cast", "T (s)", "floor (s)", "T / floor", "into racks / (racks x file)", "CPU (s)")
    quiet = {over: replace(base, oversubscription=float(over)) for over in OVERSUBSCRIPTIONS}
    outcomes = {over: shown(table, f"{over}:1", scenario) for over, scenario in quiet.items() if over != 8}
    sampled = replace(quiet[8], sampled_hosts=rack_hosts(base))
    outcomes[8] = shown(table, "8:1", sampled)
    crash = shown(table, f"8:1, {struck} crash at 50 %", replace(quiet[8], crashes=struck))
    slow = shown(table, f"8:1, {struck} at a quarter of the rate", replace(quiet[8], slow=struck))
    disks = terabyte(base, quick)
    tb = shown(table, f"{disks.size_bytes / 1e12:g} TB, disks of 3 GB/s, no page cache", disks)
    few = replace(quiet[8], size_bytes=(100 if quick else 1_600) * 64 * MIB, chunk_bytes=64 * MIB)
    coarse = shown(table, f"8:1, {few.chunks.count:,} chunks of 64 MiB", few)
    Console(width=110).print(table)
    load = busiest(sampled, outcomes[8])
    print(f"The broker at 8:1 in its busiest second: {load.read_bytes / 1e6:.1f} MB read, {load.fetches:,.0f} fetches.")
    undisturbed = outcomes[8].healthy_seconds()
    return {
        "t_over_floor": {str(over): ratio(quiet[over], outcome) for over, outcome in outcomes.items()},
        "floor_s": floor_seconds(base),
        "rack_bytes_ratio": max(rack_ratio(quiet[over], outcome) for over, outcome in outcomes.items()),
        "origin_bytes_ratio": max(round(outcome.origin_bytes / base.size_bytes, 4) for outcome in outcomes.values()),
        "crash_extra_s": round(crash.healthy_seconds() - undisturbed, 2),
        "slow_extra_s": round(slow.healthy_seconds() - undisturbed, 2),
        "tb_t_over_floor": ratio(disks, tb),
        "tb_floor_s": floor_seconds(disks),
        "sim_seconds": {
            str(few.chunks.count): round(coarse.cpu_seconds, 1),
            str(base.chunks.count): round(max(outcome.cpu_seconds for outcome in outcomes.values()), 1),
        },
        "broker_mb_per_s": round(load.read_bytes / 1e6, 1),
        "broker_fetches_per_s": round(load.fetches),
        "hosts": base.hosts,
        "racks": base.racks,
        "chunks": base.chunks.count,
    }


def terabyte(base: Scenario, quick: bool) -> Scenario:
    return replace(
        base,
        size_bytes=200 * 64 * MIB if quick else 1_000_000_000_000,
        chunk_bytes=64 * MIB,
        disk_read_bytes_per_second=_DISK,
        disk_write_bytes_per_second=_DISK,
        page_cache_bytes=0.0,
    )


def shown(table: Table, name: str, scenario: Scenario) -> Outcome:
    outcome = simulate(scenario)
    seconds, floor = outcome.healthy_seconds(), floor_seconds(scenario)
    print(f"{name}: {seconds:.2f} s, floor {floor:.2f} s, {outcome.cpu_seconds:.0f} s of CPU", flush=True)
    racks = f"{rack_ratio(scenario, outcome):.4f}"
    table.add_row(name, f"{seconds:.2f}", f"{floor:.2f}", f"{seconds / floor:.4f}", racks, f"{outcome.cpu_seconds:.0f}")
    return outcome


def floor_seconds(scenario: Scenario) -> float:
    disk = scenario.disk_write_bytes_per_second or scenario.nic_bytes_per_second
    return round(scenario.size_bytes / min(scenario.nic_bytes_per_second, disk), 2)


def ratio(scenario: Scenario, outcome: Outcome) -> float:
    return round(outcome.healthy_seconds() / floor_seconds(scenario), 4)


def rack_ratio(scenario: Scenario, outcome: Outcome) -> float:
    return round(outcome.inter_rack_bytes / scenario.racks / scenario.size_bytes, 4)
