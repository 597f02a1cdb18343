"""When a file may be read: the rules against a simulated day, the lease against real files."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headwater.producers.filesystem.settle import (
    TICK_SECONDS,
    Candidate,
    Observation,
    Settling,
    Writers,
    observe,
    probe_writers,
    readable_at,
)
from headwater.producers.filesystem.tree import Signature

START = 1_000_000.0
SETTLE = 2.0


def signature(ctime: float, size: int = 1) -> Signature:
    return Signature(size, int(ctime * 1e9), int(ctime * 1e9), 1, 1)


def test_a_reader_is_alone_until_somebody_opens_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert probe_writers(descriptor) is Writers.none
        with path.open("rb"):
            assert probe_writers(descriptor) is Writers.none
        with path.open("ab"):
            assert probe_writers(descriptor) is Writers.some
        assert probe_writers(descriptor) is Writers.none
    finally:
        os.close(descriptor)


def test_where_no_lease_is_to_be_had_nothing_is_known(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a directory has none
    try:
        assert probe_writers(descriptor) is Writers.unknown
    finally:
        os.close(descriptor)


def test_an_old_file_is_readable_at_once() -> None:
    seen = observe(None, signature(START - 3600), START)
    assert readable_at(seen, SETTLE) < START


def test_a_ctime_in_the_future_counts_from_when_it_was_seen() -> None:
    first = observe(None, signature(START + 3600), START)
    again = observe(first, signature(START + 3600), START + 1)
    assert readable_at(again, SETTLE) == START + SETTLE


@given(st.lists(st.tuples(st.floats(0.01, 5.0), st.integers(0, 2)), min_size=1, max_size=40))
def test_nothing_is_read_sooner_than_a_settle_time_after_its_size_moved(writes: list[tuple[float, int]]) -> None:
    now, size, seen = START, 0, None
    for pause, grown in writes:
        now, size = now + pause, size + grown
        before = seen
        seen = observe(seen, signature(now, size), now)
        if grown or before is None:
            assert readable_at(seen, SETTLE) >= now + SETTLE - 1e-3
        assert readable_at(seen, SETTLE) >= now + TICK_SECONDS - 1e-3
        assert seen.size_since <= seen.quiet_since


@given(st.lists(st.floats(0.01, SETTLE / 2), min_size=60, max_size=80))
def test_touching_alone_never_starves_a_file(pauses: list[float]) -> None:
    now, seen = START, observe(None, signature(START), START)
    for pause in pauses:
        now += pause
        seen = observe(seen, signature(now), now)
    assert readable_at(seen, SETTLE) <= max(START + 10 * SETTLE, now + TICK_SECONDS) + 1e-3


def test_each_path_waits_once_and_is_read_once_more_if_something_happens_meanwhile() -> None:
    settling = Settling()
    settling.add(Candidate(b"a", START), START + 1)
    settling.add(Candidate(b"a", START), START + 5)
    assert settling.take(START, 10) == []
    assert [candidate.path for candidate in settling.take(START + 1, 10)] == [b"a"]
    settling.add(Candidate(b"a", START + 1, forced=True), START + 9)
    assert (len(settling), settling.take(START + 9, 10)) == (1, [])
    settling.done(b"a", START + 2)
    assert [candidate.forced for candidate in settling.take(START + 2, 10)] == [True]
    settling.done(b"a", START + 3)
    assert (len(settling), settling.next_due_at()) == (0, None)


def test_a_force_is_not_lost_while_a_path_waits_or_is_read() -> None:
    settling = Settling()
    observed = Observation(signature(START), START, START)
    settling.add(Candidate(b"a", START, observed), START)
    settling.add(Candidate(b"a", START, forced=True), START)
    (taken,) = settling.take(START, 10)
    assert (taken.forced, taken.observation) == (True, observed)
    settling.add(Candidate(b"a", START, forced=True), START)
    settling.postpone(Candidate(b"a", START, observed), START + 1)
    (taken,) = settling.take(START + 1, 10)
    assert taken.forced
