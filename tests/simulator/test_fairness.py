from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.simulator.fairness import LONGEST_PATH, scratch, share_fairly


def filled(capacity: Sequence[int], paths: Sequence[Sequence[int]]) -> list[Fraction]:
    """Progressive filling as the textbooks have it (Bertsekas and Gallager, 1992), exact: all rates grow together, and
    a transfer stops growing when a link on its way is full."""
    rates = [Fraction(0)] * len(paths)
    growing = set(range(len(paths)))
    while growing:
        room = []
        for link, limit in enumerate(capacity):
            here = sum(link in paths[transfer] for transfer in growing)
            used = sum(rates[transfer] for transfer, path in enumerate(paths) if link in path)
            if here:
                room.append((limit - used) / Fraction(here))
        step = min(room)
        for transfer in growing:
            rates[transfer] += step
        full = [
            link
            for link, limit in enumerate(capacity)
            if sum(rates[transfer] for transfer, path in enumerate(paths) if link in path) == limit
        ]
        growing = {transfer for transfer in growing if not any(link in full for link in paths[transfer])}
    return rates


def shared(capacity: Sequence[int], paths: Sequence[Sequence[int]], tolerance: float, rounds: int) -> list[float]:
    count = len(paths)
    table = np.zeros((count, LONGEST_PATH), np.int64)
    for transfer, path in enumerate(paths):
        table[transfer, : len(path)] = path
    lengths = np.array([len(path) for path in paths], np.int64)
    rates = np.zeros(count)
    limits = np.array(capacity, np.float64)
    memory = scratch(len(capacity), count)
    share_fairly(limits, table, lengths, np.arange(count), rates, memory, tolerance, rounds)
    return rates.tolist()


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    links = draw(st.integers(1, 9))
    capacity = draw(st.lists(st.integers(1, 50), min_size=links, max_size=links))
    some = st.lists(st.integers(0, links - 1), min_size=1, max_size=min(links, LONGEST_PATH), unique=True)
    return capacity, draw(st.lists(some, min_size=1, max_size=20))


@given(networks())
@settings(deadline=None)
def test_rates_are_those_of_progressive_filling(network: tuple[list[int], list[list[int]]]) -> None:
    capacity, paths = network
    expected = [float(rate) for rate in filled(capacity, paths)]
    np.testing.assert_allclose(shared(capacity, paths, 1e-9, 1000), expected, rtol=1e-6)


@given(networks(), st.floats(0, 0.2), st.integers(1, 3))
@settings(deadline=None)
def test_no_link_is_overfull_however_rough_the_answer(
    network: tuple[list[int], list[list[int]]], tolerance: float, rounds: int
) -> None:
    capacity, paths = network
    rates = shared(capacity, paths, tolerance, rounds)
    assert min(rates) > 0
    for link, limit in enumerate(capacity):
        assert sum(rate for rate, path in zip(rates, paths, strict=True) if link in path) <= limit * (1 + 1e-9)


def test_a_transfer_beside_a_full_link_takes_what_is_left() -> None:
    # Two share a link of 10 with a third that can have 2 only: 4, 4 and 2.
    assert shared([10, 2], [[0], [0], [0, 1]], 1e-9, 1000) == [4.0, 4.0, 2.0]
