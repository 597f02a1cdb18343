"""Batches: who begins now, who waits for company."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.worker.batching import Waiting, next_batch, patience

shapes = st.sampled_from([("testcard", "64x64", "0"), ("testcard", "64x64", "2"), ("testcard", "128x64", "0")])
waiting = st.lists(st.tuples(shapes, st.floats(0, 10)), max_size=20).map(
    lambda drawn: [Waiting((f"video_{number}", 1), shape, since) for number, (shape, since) in enumerate(drawn)]
)
sizes = st.integers(1, 8)
waits = st.floats(0, 5)


def test_a_model_without_batches_begins_at_once() -> None:
    one, two = Waiting(("a", 1), ("m",), 1.0), Waiting(("b", 1), ("m",), 2.0)
    assert next_batch([two, one], now=2.0, max_batch=1, wait_seconds=9.0, free=3) == (one,)


def test_a_batch_waits_for_company_only_as_long_as_it_may_and_as_there_can_be_any() -> None:
    one = Waiting(("a", 1), ("m",), 1.0)
    asked = {"max_batch": 2, "wait_seconds": 0.5}
    assert next_batch([one], now=1.4, free=1, **asked) == ()
    assert patience([one], now=1.4, wait_seconds=0.5) == pytest.approx(0.1)
    assert next_batch([one], now=1.5, free=1, **asked) == (one,)
    assert next_batch([one], now=1.4, free=0, **asked) == (one,)
    two = Waiting(("b", 1), ("m",), 1.3)
    assert next_batch([one, two], now=1.4, free=1, **asked) == (one, two)


@given(waiting, sizes, waits, st.floats(0, 20), st.integers(0, 3))
def test_a_batch_is_of_one_shape_within_its_size_and_has_the_one_that_waits_longest(
    all_waiting: list[Waiting], max_batch: int, wait: float, now: float, free: int
) -> None:
    batch = next_batch(all_waiting, now=now, max_batch=max_batch, wait_seconds=wait, free=free)
    assert len(batch) <= max_batch
    assert len({one.shape for one in batch}) <= 1
    if batch:
        assert min(all_waiting, key=lambda one: one.since) in batch
        left_out = [one for one in all_waiting if one.shape == batch[0].shape and one not in batch]
        assert all(one.since >= batch[-1].since for one in left_out)
        assert not left_out or len(batch) == max_batch


@given(waiting.filter(bool), sizes, waits, st.integers(0, 3))
def test_nobody_waits_longer_than_the_model_allows(
    all_waiting: list[Waiting], max_batch: int, wait: float, free: int
) -> None:
    oldest = min(one.since for one in all_waiting)
    assert next_batch(all_waiting, now=oldest + wait, max_batch=max_batch, wait_seconds=wait, free=free)
    assert patience(all_waiting, now=oldest + wait, wait_seconds=wait) == 0.0


def test_nothing_waits_where_nobody_is() -> None:
    assert next_batch([], now=1.0, max_batch=2, wait_seconds=0.0, free=1) == ()
    assert patience([], now=1.0, wait_seconds=0.0) is None
