from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.board import KEYS, SAMPLE, Board, Standing, quantiles, tenant_boards
from headwater.rules.jobs.fair_queue import FairQueue, Limits
from headwater.rules.jobs.waiting import AGEING_US, WaitingJob

MODELS = frozenset({"m"})


def a_job(job: str, tenant: str, queued_us: int, priority: int = 0, cost_seconds: float = 1.0) -> WaitingJob:
    return WaitingJob(job, 1, 0, tenant, "m", "64x64", 1, priority, cost_seconds, queued_us)


def board_of(queue: FairQueue, slots: int = 4, free: int = 0, pace: float = 1.0) -> Board:
    return Board(0, slots, free, pace, tenant_boards(queue.tenants(SAMPLE), {("a", 0): 7}))


def standing(board: Board, job: WaitingJob) -> Standing:
    return board.standing(job.tenant, job.priority, job.queued_us, job.cost_seconds)


weights = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=1)
waiting = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 10**9), st.integers(-2, 2)), min_size=1, max_size=120, unique=True
)


@given(weights, waiting)
def test_a_place_read_from_the_board_is_the_one_that_the_queue_gives(weight, jobs) -> None:
    queue = FairQueue()
    queue.set_limits({name: Limits(one) for name, one in weight.items()})
    known = [a_job(str(at), *one) for at, one in enumerate(jobs)]
    for job in known:
        queue.put(job, 0)
    board = board_of(queue)
    order = []
    while (taken := queue.take(MODELS, 0)) is not None:
        order.append(taken.job)
    tenants = {job.tenant for job in known}
    rounds = sum(weight.get(name, 1.0) for name in tenants) / min(weight.get(name, 1.0) for name in tenants)
    for job in known:
        right = order.index(job.job) + 1
        interpolated = len(known) / (KEYS - 1) * rounds
        assert abs(standing(board, job).position - right) <= 2 * rounds + len(tenants) + interpolated


def test_alone_in_a_pool_the_place_is_exact_and_counts_what_goes_before() -> None:
    queue = FairQueue()
    jobs = [a_job(str(at), "a", at) for at in range(20)]
    for job in jobs:
        queue.put(job, 0)
    board = board_of(queue)
    assert [standing(board, job).position for job in jobs] == list(range(1, 21))
    assert board.standing("a", 0, 1_000, 1.0).position == 21
    assert board.standing("a", 1, 10 + AGEING_US, 1.0).position == 11
    assert board.standing("b", 0, 1_000, 1.0).position == 1
    assert board.queued == 20


@pytest.mark.parametrize(("weight", "others_before"), [(1.0, 20), (4.0, 5), (0.5, 40)])
def test_other_tenants_go_before_by_their_weight(weight: float, others_before: int) -> None:
    queue = FairQueue()
    queue.set_limits({"a": Limits(weight)})
    for at in range(100):
        queue.put(a_job(f"b{at}", "b", at), 0)
        if at < 20:
            queue.put(a_job(f"a{at}", "a", at), 0)
    assert board_of(queue).standing("a", 0, 1_000, 1.0).position == 21 + others_before


def test_it_starts_when_those_before_it_and_one_more_have_had_a_slot() -> None:
    queue = FairQueue()
    for at in range(40):
        queue.put(a_job(str(at), "a", at, cost_seconds=10.0), 0)
    board = board_of(queue, slots=4)
    assert board.standing("a", 0, 1_000, 10.0) == Standing(41, 410 / 4, 410 / 4 + 10)
    twice_as_fast = board_of(queue, slots=4, pace=2.0)
    assert twice_as_fast.standing("a", 0, 1_000, 10.0) == Standing(41, 410 / 8, 410 / 8 + 5)


def test_a_free_slot_starts_it_at_once_and_without_workers_nobody_knows() -> None:
    assert Board(0, 4, 1, 1.0).standing("a", 0, 5, 3.0) == Standing(1, 0.0, 3.0)
    assert Board(0, 4, 0, 1.0).standing("a", 0, 5, 3.0) == Standing(1, 0.75, 3.75)
    assert Board(0, 0, 0, 1.0).standing("a", 0, 5, 3.0) == Standing(1, None, None)


def test_who_may_run_one_job_at_a_time_waits_for_its_own() -> None:
    queue = FairQueue()
    queue.set_limits({"a": Limits(max_running=1)})
    for at in range(10):
        queue.put(a_job(str(at), "a", at, cost_seconds=2.0), 0)
    board = board_of(queue, slots=100, free=50)
    assert board.standing("a", 0, 1_000, 2.0).starts_in_seconds == 11 * 2.0


@given(st.lists(st.integers(), max_size=2_000))
def test_quantiles_are_some_of_the_keys_with_the_least_and_the_greatest(keys: list[int]) -> None:
    found = quantiles(keys)
    assert len(found) == min(len(keys), KEYS)
    assert set(found) <= set(keys)
    assert list(found) == sorted(found)
    if keys:
        assert (found[0], found[-1]) == (min(keys), max(keys))


@pytest.mark.parametrize("count", [0, 3, 5_000])
def test_a_board_survives_being_written_down(count: int) -> None:
    queue = FairQueue()
    queue.set_limits({"a": Limits(2.0, 9)})
    for at in range(count):
        queue.put(a_job(str(at), "ab"[at % 2], at, priority=at % 3), 0)
    board = board_of(queue)
    text = json.dumps(board.to_json())
    assert Board.from_json(json.loads(text)) == board
    assert len(text) < 4_000, "small, however much waits"
