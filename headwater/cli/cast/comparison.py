"""A simulated cast beside its floor, simpler plans, and what it costs the broker: as a table, a curve, and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from headwater.cli import output
from headwater.cli.cast import curve
from headwater.rules.cast.bounds import Bound, binding, bounds, slow_floor
from headwater.simulator.broker import BrokerLoad, busiest
from headwater.simulator.outcome import Outcome
from headwater.simulator.plans import Plan, fleet_of, plans
from headwater.simulator.scenario import Scenario

_COUNTS = ("transfers", "busy", "hedged", "abandoned", "fallbacks", "steps", "cpu_seconds")
_COLUMNS = ("plan", "formula", "seconds", "× floor", "copies", "1st hop", "deaths")
_WIDTH, _HEIGHT = 64, 8


@dataclass(frozen=True, slots=True)
class Comparison:
    scenario: Scenario
    bounds: tuple[Bound, ...]
    outcome: Outcome
    plans: tuple[Plan, ...]
    load: BrokerLoad

    @property
    def floor_seconds(self) -> float:
        return binding(self.bounds)[0].seconds

    @property
    def binding(self) -> str:
        return " and ".join(bound.resource for bound in binding(self.bounds))

    @property
    def origin_copies(self) -> float:
        """Of the file, by bytes."""
        return self.outcome.origin_bytes / self.scenario.size_bytes

    @property
    def copies_per_rack(self) -> float:
        """Of the file, by bytes."""
        return self.outcome.inter_rack_bytes / (self.scenario.racks * self.scenario.size_bytes)

    @property
    def finish_seconds(self) -> tuple[float, ...]:
        """Of the hosts that finished: the median, 99 of 100, and the last."""
        return tuple(float(second) for second in np.nanpercentile(self.outcome.finish_seconds, (50, 99, 100)))

    @property
    def slow_seconds(self) -> float:
        """When the last slow host had the file; infinity: one never had."""
        return float(np.nan_to_num(self.outcome.finish_seconds[self.outcome.slow], nan=np.inf).max(initial=0.0))

    @property
    def unfinished(self) -> int:
        """Hosts that live and do not have the file."""
        return int(np.count_nonzero(np.isnan(self.outcome.finish_seconds))) - len(self.outcome.crashed)


def compare(scenario: Scenario) -> Comparison:
    """Simulates the cast: one core is busy for minutes with a large one."""
    from headwater.simulator.simulate import simulate

    outcome = simulate(scenario)
    found = bounds(scenario.size_bytes, fleet_of(scenario))
    return Comparison(scenario, found, outcome, plans(scenario), busiest(scenario, outcome))


def document(compared: Comparison) -> dict[str, Any]:
    """All figures, in seconds and bytes; what never ends is null."""
    outcome, load = compared.outcome, compared.load
    seconds = outcome.healthy_seconds()
    return {
        "scenario": compared.scenario,
        "floor_seconds": compared.floor_seconds,
        "binding": compared.binding,
        "swarm": {
            "seconds": _finite(seconds),
            "t_over_floor": _finite(seconds / compared.floor_seconds),
            "finish_seconds": dict(zip(("p50", "p99", "p100"), compared.finish_seconds, strict=True)),
            "slow_seconds": _finite(compared.slow_seconds) if len(outcome.slow) else None,
            "unfinished": compared.unfinished,
            "origin_copies": compared.origin_copies,
            "copies_per_rack": compared.copies_per_rack,
            "disk_read_bytes": outcome.disk_read_bytes,
            **{name: getattr(outcome, name) for name in _COUNTS},
            "curve": {"seconds": outcome.timeline_seconds.tolist(), "share": outcome.timeline_share.tolist()},
        },
        "plans": [output.plain(plan) | {"seconds": _finite(plan.seconds)} for plan in compared.plans],
        "broker": {
            "read_bytes_per_second": load.read_bytes,
            "written_bytes_per_second": load.written_bytes,
            "fetches_per_second": load.fetches,
            "flows": load.flows,
        },
    }


def show(compared: Comparison) -> None:
    """Prints the table, what moved, and the curve."""
    console = output.console()
    rows = [row if compared.scenario.crashes else row[:-1] for row in (_COLUMNS, *_rows(compared))]
    console.print(output.table([str(name) for name in rows[0]], rows[1:], right=_COLUMNS[2:]))
    for line in _notes(compared):
        output.say(console, line)
    output.say(console, "\nWhat all hosts have, of what all are to have:")
    outcome = compared.outcome
    end = compared.finish_seconds[-1]
    for text in curve.drawn(outcome.timeline_seconds, outcome.timeline_share, end, _WIDTH, _HEIGHT):
        console.print(text, markup=False, soft_wrap=True)


def _rows(compared: Comparison) -> Iterator[tuple[str | Text, ...]]:
    disturbed = compared.scenario.crashes + compared.scenario.slow > 0
    yield ("floor", "", f"{compared.floor_seconds:,.2f}", "1.000", "1.00", "", "")
    seconds = compared.outcome.healthy_seconds()
    ours = ("headwater", "", *_times(compared, seconds), f"{compared.copies_per_rack:.3f}", "–", compared.unfinished)
    yield tuple(Text(str(value), style="bold") for value in ours)
    for plan in sorted(compared.plans, key=lambda plan: plan.quiet_seconds):
        known = plan.seconds if disturbed else plan.quiet_seconds
        copies = "" if plan.copies_per_rack is None else f"{plan.copies_per_rack:.2f}"
        yield (
            plan.name,
            plan.formula,
            *_times(compared, known),
            copies,
            _count(plan.first_hop_cut_off),
            _count(plan.cut_off),
        )


def _times(compared: Comparison, seconds: float | None) -> tuple[str, str]:
    if seconds is None:
        return "", ""
    if math.isinf(seconds):
        return "never", ""
    return f"{seconds:,.2f}", f"{seconds / compared.floor_seconds:,.3f}"


def _count(hosts: int | None) -> str:
    return "" if hosts is None else f"{hosts:,}"


def _notes(compared: Comparison) -> Iterator[str]:
    scenario, outcome, load = compared.scenario, compared.outcome, compared.load
    median, most, last = compared.finish_seconds
    yield f"\nThe floor is set by the {compared.binding}. Seconds: of the last host that neither died nor is slow."
    yield "Copies: of a chunk into a rack. 1st hop, deaths: hosts cut off for ever where nobody mends what these leave."
    yield f"Half of the hosts had the file after {median:,.2f} s, 99 % after {most:,.2f} s, all after {last:,.2f} s."
    if scenario.crashes:
        mended = f"{scenario.detect_seconds:g} s"
        yield f"{scenario.crashes} hosts died. Simpler plans are taken to feed their orphans again {mended} later."
    if scenario.slow:
        own = slow_floor(scenario.size_bytes, fleet_of(scenario))
        yield f"The slow hosts had it after {compared.slow_seconds:,.2f} s; their own links need {own:,.2f} s."
    if compared.unfinished:
        yield f"{compared.unfinished} hosts never got it."
    yield (
        f"The origin sent the file {compared.origin_copies:.3f} times. Of {outcome.transfers:,} transfers "
        f"{outcome.hedged:,} were hedged, {outcome.abandoned:,} given up, {outcome.fallbacks:,} came past the tree."
    )
    yield (
        f"The broker hands out {load.read_bytes / 1e6:,.1f} MB/s at most, in {load.fetches:,.0f} fetches a second, "
        f"and takes {load.written_bytes / 1e6:,.2f} MB/s."
    )
    if outcome.disk_read_bytes:
        yield f"Read from disks to be sent again: {outcome.disk_read_bytes / 1e9:,.0f} GB."


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds
