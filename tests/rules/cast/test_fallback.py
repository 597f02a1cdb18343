from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.fallback import ORIGIN, ORIGIN_SLOTS, is_due, may_import, offered_to, offers, ways_in
from headwater.rules.cast.importers import parent


@given(st.integers(0, 100), st.integers(0, 200), st.integers(0, 40))
def test_the_origin_offers_hashed_chunks_into_free_slots(next_chunk: int, hashed: int, taken: int) -> None:
    count = offers(next_chunk, hashed, taken)
    assert count >= 0
    assert count == 0 or (next_chunk + count <= hashed and taken + count <= ORIGIN_SLOTS)
    if next_chunk < hashed and taken < ORIGIN_SLOTS:
        assert count > 0


def test_an_offer_goes_round_all_racks() -> None:
    assert [offered_to(attempt) for attempt in range(5)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def test_a_chunk_is_due_when_it_is_outside_or_overtaken_or_when_all_stands_still() -> None:
    assert not is_due(0, 255, told=False, quiet_deadlines=5.9)
    assert is_due(0, 256, told=False, quiet_deadlines=0)
    assert is_due(500, 0, told=True, quiet_deadlines=0)
    assert is_due(500, 0, told=False, quiet_deadlines=6)


@given(st.integers(0, 1000), st.floats(0.15, 10))
def test_every_due_chunk_has_an_importer_at_every_moment_whoever_dies(deaths: int, deadline: float) -> None:
    """Of the ranks that live, the lowest one, ``deaths``, may import when its turn comes and not before."""
    assert may_import(deaths, (deaths + 1) * deadline, deadline)
    assert not may_import(deaths, (deaths + 0.5) * deadline, deadline)


@given(st.integers(0, 5000))
def test_ways_in_go_up_the_tree_to_the_origin(position: int) -> None:
    ways = list(ways_in(position))
    at: int | None = position
    for way in ways[:-1]:
        assert at is not None
        at = parent(at)
        assert way == at
    assert ways[-1] == ORIGIN
    assert parent(position if len(ways) == 1 else ways[-2]) is None
