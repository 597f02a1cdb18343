"""Who writes where: several fetches of one chunk, good and bad, in any order, never spoil what was proven."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.rules.errors import NotFound

MIB = 1024 * 1024
HALF = MIB // 2


def on_disk(store: Any, chunk: int) -> bytes:
    file, start, length = store.serve(chunk)
    try:
        return os.pread(file, length, start)
    finally:
        os.close(file)


def test_a_chunk_counts_when_it_has_its_hash_and_not_before(fleet: Any) -> None:
    content = fleet.content(MIB + 10)
    partial = content.partial(fleet.into())
    writer = partial.begin(0)

    writer.write(memoryview(content.data[:HALF]))
    assert not partial.has(0)
    with pytest.raises(NotFound):
        partial.serve(0)
    writer.write(memoryview(content.data[HALF:MIB]))
    assert writer.finish()
    writer.close()

    assert partial.had().tolist() == [True, False]
    assert on_disk(partial, 0) == content.data[:MIB]


def test_a_wrong_chunk_counts_for_nothing_and_the_next_one_may_come(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial = content.partial(fleet.into())

    assert not content.give(partial, 0, bytes(MIB))
    assert not partial.has(0)
    assert content.give(partial, 0)
    assert on_disk(partial, 0) == content.data


def test_a_hash_that_was_not_said_yet_admits_no_writer(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    partial = content.partial(fleet.into())
    fresh = type(partial)(fleet.into("two"), "weights", 7, "w.bin", content.chunks)
    fresh.learn(1, content.hashes[32:])

    with pytest.raises(NotFound):
        fresh.begin(0)
    assert content.give(fresh, 1)


STEPS = ("begin", "first half", "second half", "finish", "close")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bad=st.tuples(st.booleans(), st.booleans()), order=st.permutations(sorted(list(range(3)) * len(STEPS))))
def test_any_order_of_good_and_bad_writers_leaves_the_right_bytes(
    fleet: Any, bad: tuple[bool, bool], order: list[int]
) -> None:
    content = fleet.content(MIB)
    partial = content.partial(fleet.into())
    writers: dict[int, Any] = {}
    done = [0, 0, 0]
    for number in order:
        wrong = (*bad, False)[number]
        data = bytes(MIB) if wrong else content.data
        match STEPS[done[number]]:
            case "begin":
                writers[number] = partial.begin(0)
            case "first half":
                writers[number].write(memoryview(data[:HALF]))
            case "second half":
                writers[number].write(memoryview(data[HALF:]))
            case "finish":
                assert writers[number].finish() is not wrong
            case "close":
                writers[number].close()
        done[number] += 1
        if partial.has(0):
            assert on_disk(partial, 0) == content.data
    assert partial.has(0)
    partial.discard()


def test_a_cut_off_owner_gives_its_place_to_the_next(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial = content.partial(fleet.into())
    cut = partial.begin(0)
    cut.write(memoryview(bytes(HALF)))
    cut.close()

    assert content.give(partial, 0)
    assert on_disk(partial, 0) == content.data


def test_who_was_owner_is_not_taken_for_the_one_who_is(fleet: Any) -> None:
    """Between a look at the owner and its lock the place may change hands: then the copy must wait for the new one."""
    content = fleet.content(MIB)
    partial = content.partial(fleet.into())
    former, spare = partial.begin(0), partial.begin(0)
    spare.write(memoryview(content.data))
    former.close()
    owner = partial.begin(0)

    assert not spare._settle(former)
    assert spare.finish()
    owner.write(memoryview(bytes(MIB)))
    assert on_disk(partial, 0) == content.data
    owner.close()
    spare.close()
