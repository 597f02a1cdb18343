"""Trees against what defines them: max-min fairness by its own condition, arrivals chunk by chunk in a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.simulator import trees
from headwater.simulator.trees import NOBODY, OUTSIDE, Links, Tree

SIZE, CHUNK = 40, 4


@st.composite
def networks(draw):
    """A random tree over racks that are placed at random, with links whose rates differ."""
    hosts = draw(st.integers(1, 12))
    sources = [NOBODY] + [draw(st.integers(0, node)) for node in range(hosts)]
    racks = [OUTSIDE, *draw(st.lists(st.integers(0, 2), min_size=hosts, max_size=hosts))]
    rates = st.lists(st.integers(1, 8), min_size=hosts + 1, max_size=hosts + 1)
    links = Links(np.array(draw(rates), float), np.array(draw(rates), float), draw(st.integers(1, 20)))
    return Tree(np.array(sources), np.array(racks)), links


def nobody(plan):
    return np.zeros(len(plan.sources), np.bool_)


def crossed(plan, node):
    """What the bytes to a node cross."""
    source = plan.sources[node]
    found = [("up", source), ("down", node)]
    if plan.racks[source] != plan.racks[node]:
        found.append(("into", plan.racks[node]))
        if source != 0:
            found.append(("out of", plan.racks[source]))
    return found


@settings(deadline=None)
@given(networks())
def test_rates_are_max_min_fair_and_never_above_the_sources_own(network):
    """Each is as its source's, or the largest (or equal) of all that share some full link with it."""
    plan, links = network
    rates = trees.rates(plan, links, nobody(plan))
    nodes = range(1, len(rates))
    users = {}
    for node in nodes:
        for link in crossed(plan, node):
            users.setdefault(link, []).append(rates[node])
    for link, used in users.items():
        assert sum(used) <= capacity(links, link) * (1 + 1e-6)
    for node in nodes:
        is_sources = plan.sources[node] != 0 and rates[node] == pytest.approx(rates[plan.sources[node]])
        at_a_full_link = any(
            sum(users[link]) == pytest.approx(capacity(links, link)) and rates[node] == pytest.approx(max(users[link]))
            for link in crossed(plan, node)
        )
        assert is_sources or at_a_full_link
        assert rates[node] <= rates[plan.sources[node]] * (1 + 1e-9)


def capacity(links, link):
    kind, number = link
    return {"up": links.up, "down": links.down}[kind][number] if kind in ("up", "down") else links.rack


def arrivals(sources, rates, had, available, start):
    """When each node has each of its chunks, one after the other from ``start`` on: inf for those that never come."""
    times = [[start] * (SIZE // CHUNK)]
    for node in range(1, len(sources)):
        free, mine = start, [start] * had[node]
        for chunk in range(had[node], SIZE // CHUNK):
            there = times[sources[node]][chunk] if chunk < available[node] and rates[node] else np.inf
            free = max(free, there) + (CHUNK / rates[node] if rates[node] else np.inf)
            mine.append(free)
        times.append(mine)
    return times


@settings(deadline=None)
@given(networks())
def test_finish_times_are_those_of_a_loop_over_chunks(network):
    plan, links = network
    count = len(plan.sources)
    rates = trees.rates(plan, links, nobody(plan))
    times = arrivals(plan.sources, rates, [0] * count, [SIZE // CHUNK] * count, 0.0)

    assert trees.finish(plan, links, SIZE, CHUNK) == pytest.approx([mine[-1] for mine in times])


@settings(max_examples=200, deadline=None)
@given(networks(), st.data())
def test_after_deaths_too(network, data):
    plan, links = network
    count, chunks = len(plan.sources), SIZE // CHUNK
    dead = nobody(plan)
    dead[data.draw(st.lists(st.integers(1, count - 1), min_size=1))] = True
    died = data.draw(st.integers(0, 60)) + 0.1234
    mended = died + data.draw(st.integers(0, 8))
    rates = trees.rates(plan, links, nobody(plan))
    before = arrivals(plan.sources, rates, [0] * count, [chunks] * count, 0.0)
    had_at_death = [sum(time <= died for time in mine) for mine in before]
    available = [had_at_death[node] if dead[node] or dead[plan.sources[node]] else chunks for node in range(count)]
    meanwhile = arrivals(plan.sources, rates, [0] * count, available, 0.0)
    had = [sum(time <= mended for time in mine) for mine in meanwhile]
    sources = plan.sources.copy()
    for node in range(1, count):
        while dead[sources[node]]:
            sources[node] = plan.sources[sources[node]]
    again = trees.rates(Tree(sources, plan.racks), links, dead)
    after = arrivals(sources, again, had, [chunks] * count, mended)
    expected = [
        np.inf if dead[node] and before[node][-1] > died
        else meanwhile[node][-1] if had[node] == chunks
        else after[node][-1]
        for node in range(count)
    ]  # fmt: skip

    found = trees.finish_after_deaths(plan, links, SIZE, CHUNK, dead, died, mended)
    assert found[1:] == pytest.approx(expected[1:])
