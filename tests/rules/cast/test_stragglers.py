"""Slow hosts: far below their rack-mates, for seconds, while these are not starved; and not to and fro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.stragglers import LEAST_CHUNKS, Pace, slow_hosts

MIB = 1024 * 1024
NOBODY: frozenset[str] = frozenset()


def rack(*received_chunks: float, had: int = 100) -> list[Pace]:
    """Hosts a, b, …: what each received in the window, in chunks of 1 MiB; all have as many chunks."""
    return [Pace(chr(ord("a") + at), int(chunks * MIB), had) for at, chunks in enumerate(received_chunks)]


def test_a_host_at_a_quarter_of_the_rate_is_slow() -> None:
    assert slow_hosts(rack(40, 41, 39, 10, 40), MIB, NOBODY) == {"d"}


def test_hosts_that_differ_a_little_are_not_slow() -> None:
    assert slow_hosts(rack(40, 30, 25, 21, 60), MIB, NOBODY) == NOBODY


def test_a_slow_host_stays_slow_until_it_is_well() -> None:
    slow = slow_hosts(rack(40, 40, 19), MIB, NOBODY)
    assert slow == {"c"}
    assert slow_hosts(rack(40, 40, 25), MIB, slow) == {"c"}
    assert slow_hosts(rack(40, 40, 25), MIB, NOBODY) == NOBODY
    assert slow_hosts(rack(40, 40, 31), MIB, slow) == NOBODY


def test_where_all_are_starved_nobody_changes() -> None:
    starved = rack(LEAST_CHUNKS - 1, LEAST_CHUNKS - 1, 0)

    assert slow_hosts(starved, MIB, NOBODY) == NOBODY
    assert slow_hosts(starved, MIB, frozenset("a")) == {"a"}


def test_a_host_that_waits_for_its_rack_mates_is_not_slow() -> None:
    paces = [*rack(40, 40, 40), Pace("ahead", 2 * MIB, 150)]

    assert slow_hosts(paces, MIB, NOBODY) == NOBODY


def test_the_last_host_that_lacks_chunks_stays_what_it_was() -> None:
    assert slow_hosts(rack(1), MIB, frozenset("a")) == {"a"}
    assert slow_hosts(rack(1), MIB, NOBODY) == NOBODY


def test_who_is_complete_or_gone_is_not_slow_any_more() -> None:
    assert slow_hosts(rack(40, 40), MIB, frozenset("z")) == NOBODY
    assert slow_hosts([], MIB, frozenset("z")) == NOBODY


@given(st.lists(st.integers(0, 100), min_size=1, max_size=12), st.sets(st.sampled_from("abcdefghijkl")))
def test_less_than_half_of_a_rack_becomes_slow_and_never_the_fastest(received: list[int], before: set[str]) -> None:
    paces = rack(*received)
    found = slow_hosts(paces, MIB, frozenset(before))

    assert len(found - before) <= len(paces) // 2
    assert found <= {pace.host for pace in paces}
    if max(received) >= LEAST_CHUNKS and len(paces) > 1 and sorted(received)[len(paces) // 2] >= LEAST_CHUNKS:
        assert all(pace.host not in found for pace in paces if pace.received == max(received) * MIB)
