"""Simpler plans than the swarm, and how long each takes: what a swarm has to be better than.

Trees and chains are computed exactly by ``trees``. Of the others there is a closed form: doubling, with the racks that
slow a round, and two optima that know neither racks nor failures, as marks to measure against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headwater.rules.cast.bounds import Fleet
from headwater.simulator import trees
from headwater.simulator.scenario import Scenario
from headwater.simulator.trees import Flags, Links, Tree


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to hand the file out. Of its formula: k chunks of τ seconds, N hosts, R racks that limit nothing.

    ``quiet_seconds``: until the last host has the file, where nobody is slow or dies. ``seconds``: the same in the
    scenario, of those that neither are slow nor die, when orphans find a new source as soon as a death is noticed;
    ``cut_off``: how many of them never get the file where nobody mends what the dead leave. ``first_hop_cut_off``: the
    same where only the first host dies. All None where there is no more than the closed form.
    """

    name: str
    formula: str
    quiet_seconds: float
    copies_per_rack: float | None = None
    seconds: float | None = None
    cut_off: int | None = None
    first_hop_cut_off: int | None = None


def fleet_of(scenario: Scenario) -> Fleet:
    """The scenario's fleet, as the bounds take it."""
    return Fleet(
        hosts=scenario.hosts,
        racks=scenario.racks,
        host_bytes_per_second=scenario.nic_bytes_per_second,
        origin_bytes_per_second=scenario.nic_bytes_per_second,
        oversubscription=scenario.oversubscription,
        slow_hosts=scenario.slow,
        slow_share=scenario.slow_share if scenario.slow else 1.0,
        disk_read_bytes_per_second=scenario.disk_read_bytes_per_second,
        disk_write_bytes_per_second=scenario.disk_write_bytes_per_second,
        disk_bytes_per_second=scenario.disk_bytes_per_second,
        page_cache=scenario.page_cache_bytes != 0,
        hash_bytes_per_second=scenario.hash_bytes_per_second,
    )


def plans(scenario: Scenario) -> tuple[Plan, ...]:
    """Every plan for this scenario. Hashing limits none of them."""
    fleet = fleet_of(scenario)
    links = Links.of(fleet, np.zeros(0, np.int64))
    rate = float(min(links.up.min(), links.down.min()))
    whole, tau = scenario.size_bytes / rate, min(scenario.size_bytes, scenario.chunk_bytes) / rate
    deep = math.ceil(fleet.hosts / fleet.racks)
    return (
        _fed("star", "N k τ", trees.star(fleet), scenario),
        Plan("whole file, doubling", "⌈log₂(N+1)⌉ k τ", doubling_rounds(fleet) * whole),
        _fed("binary tree", "2 (k + log₂N − 1) τ", trees.wide_tree(fleet, 2), scenario),
        _fed("chains that fork at each rack", "(2k + R + N/R) τ", trees.rack_chains(fleet), scenario),
        _fed("one chain, rack by rack", "(k + N − 1) τ", trees.chain(fleet), scenario),
        Plan("chains by rack, ideal", "(k + R + N/R − 1) τ", whole + (fleet.racks + deep - 1) * tau, 1.0),
        Plan("binomial pipeline, ideal", "(k + ⌊log₂N⌋) τ", whole + math.floor(math.log2(fleet.hosts)) * tau),
    )


def doubling_rounds(fleet: Fleet) -> float:
    """Times that the whole file takes over one link, where in each round whoever has it sends it to one who has not.

    Who sends to whom is left to chance: rounds in which more cross into a rack than its uplink carries take longer.
    """
    have, rounds = 1, 0.0
    while have <= fleet.hosts:
        sent = min(have, fleet.hosts + 1 - have)
        into_a_rack = sent / fleet.racks * (1 - 1 / fleet.racks)
        rounds += max(1.0, into_a_rack * fleet.oversubscription / fleet.smallest_rack)
        have += sent
    return rounds


def _fed(name: str, formula: str, tree: Tree, scenario: Scenario) -> Plan:
    fleet = fleet_of(scenario)
    crashed, slow, _ = scenario.struck()
    dead, first_hop = _nodes(fleet, crashed + 1), _nodes(fleet, np.array([1]))
    counted = ~(dead | _nodes(fleet, slow + 1))
    links = Links.of(fleet, slow + 1)
    quiet_links = Links.of(fleet, slow[:0])
    file = scenario.size_bytes, scenario.chunk_bytes
    quiet = float(trees.finish(tree, quiet_links, *file).max())
    died = scenario.crash_share * quiet

    def unfed(dead: Flags) -> int:
        never = np.isinf(trees.finish_after_deaths(tree, links, *file, dead, died, np.inf))
        return int(np.count_nonzero(never & counted & ~dead))

    mended = trees.finish_after_deaths(tree, links, *file, dead, died, died + scenario.detect_seconds)

    return Plan(
        name,
        formula,
        quiet,
        copies_per_rack=float(np.count_nonzero(tree.crosses)) / fleet.racks,
        seconds=float(mended[counted].max()),
        cut_off=unfed(dead),
        first_hop_cut_off=unfed(first_hop),
    )


def _nodes(fleet: Fleet, numbers: trees.Nodes) -> Flags:
    named = np.zeros(fleet.hosts + 1, np.bool_)
    named[numbers] = True
    return named
