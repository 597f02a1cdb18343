from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.fair_queue import FairQueue, Limits
from headwater.rules.jobs.waiting import AGEING_US, HIGHEST, LOWEST, WaitingJob

ANY = frozenset({"m", "n"})


def a_job(job: str, tenant: str = "a", **fields: object) -> WaitingJob:
    given = {"model": "m", "size": "64x64", "seconds": 1, "priority": 0, "cost_seconds": 1.0, "queued_us": 0}
    return WaitingJob(job, 1, 0, tenant, **{**given, **fields})  # type: ignore[arg-type]


def taken(queue: FairQueue, models: frozenset[str] = ANY, now_us: int = 0) -> list[str]:
    """The names of all, in the order in which they are taken."""
    names = []
    while (job := queue.take(models, now_us)) is not None:
        names.append(job.job)
    return names


jobs_of_a_tenant = st.lists(
    st.tuples(st.integers(LOWEST, HIGHEST), st.integers(0, 3 * AGEING_US * HIGHEST), st.floats(0.1, 50)), max_size=40
)
tenants = st.dictionaries(
    st.sampled_from("abcde"), st.tuples(st.floats(0.2, 8), jobs_of_a_tenant), min_size=1, max_size=5
)


def filled(given: dict[str, tuple[float, list[tuple[int, int, float]]]]) -> tuple[FairQueue, list[WaitingJob]]:
    queue = FairQueue()
    queue.set_limits({name: Limits(weight) for name, (weight, _) in given.items()})
    jobs = [
        a_job(f"{name}{at}", name, priority=priority, queued_us=queued_us, cost_seconds=cost)
        for name, (_, one) in given.items()
        for at, (priority, queued_us, cost) in enumerate(one)
    ]
    for job in jobs:
        queue.put(job, 0)
    return queue, jobs


@given(tenants)
def test_everything_is_taken_once_and_each_tenant_in_its_own_order(given_tenants) -> None:
    queue, jobs = filled(given_tenants)
    order = taken(queue)
    assert Counter(order) == Counter(job.job for job in jobs)
    by_name = {job.job: job for job in jobs}
    for tenant in given_tenants:
        keys = [by_name[name].key for name in order if by_name[name].tenant == tenant]
        assert keys == sorted(keys)
    assert len(queue) == 0


@given(tenants)
def test_two_that_wait_have_been_served_by_their_weights_within_one_job_each(given_tenants) -> None:
    queue, jobs = filled(given_tenants)
    costs = {name: max((cost for _, _, cost in one), default=0.0) for name, (_, one) in given_tenants.items()}
    left = Counter(job.tenant for job in jobs)
    served: dict[str, float] = dict.fromkeys(given_tenants, 0.0)
    while all(left[name] for name in given_tenants):
        job = queue.take(ANY, 0)
        assert job is not None
        left[job.tenant] -= 1
        served[job.tenant] += job.cost_seconds
        shares = {name: served[name] / weight for name, (weight, _) in given_tenants.items()}
        most = {name: costs[name] / weight for name, (weight, _) in given_tenants.items()}
        for one in given_tenants:
            for other in given_tenants:
                assert abs(shares[one] - shares[other]) <= most[one] + most[other] + 1e-6


@given(st.integers(LOWEST, HIGHEST), st.lists(st.tuples(st.integers(LOWEST, HIGHEST), st.integers(1, 10**10))))
def test_who_waits_long_enough_is_overtaken_no_more(priority: int, later: list[tuple[int, int]]) -> None:
    queue = FairQueue()
    queue.put(a_job("first", priority=priority), 0)
    for at, (other, queued_us) in enumerate(later):
        queue.put(a_job(f"later{at}", priority=other, queued_us=queued_us), 0)
    order = taken(queue)
    overtook = [later[int(name.removeprefix("later"))] for name in order[: order.index("first")]]
    assert all(queued_us <= (HIGHEST - priority) * AGEING_US for _, queued_us in overtook)


def test_a_flood_does_not_delay_the_few_jobs_of_another_tenant() -> None:
    queue = FairQueue()
    for at in range(10_000):
        queue.put(a_job(f"flood{at}", "flood", queued_us=at), 0)
    before = [queue.take(ANY, 0) for _ in range(100)]
    assert all(job is not None and job.tenant == "flood" for job in before)
    for at in range(10):
        queue.put(a_job(f"few{at}", "few", queued_us=20_000 + at), 0)
    order = [queue.take(ANY, 0) for _ in range(20)]
    assert [job.job for job in order if job is not None and job.tenant == "few"] == [f"few{at}" for at in range(10)]


def test_who_had_nothing_to_do_has_saved_up_nothing() -> None:
    queue = FairQueue()
    for at in range(100):
        queue.put(a_job(f"busy{at}", "busy"), 0)
    queue.put(a_job("idle", "idle"), 0)
    for _ in range(51):
        job = queue.take(ANY, 0)
        assert job is not None
        queue.ended(job.tenant)
    for at in range(50):
        queue.put(a_job(f"idle{at}", "idle"), 0)
    next_ones = Counter(job.tenant for _ in range(20) if (job := queue.take(ANY, 0)) is not None)
    assert abs(next_ones["busy"] - next_ones["idle"]) <= 2


@pytest.mark.parametrize("slots", [2, 4, 16])
def test_who_comes_gets_its_share_of_the_slots_first_then_as_much_as_the_others(slots: int) -> None:
    queue = FairQueue()
    for at in range(200):
        queue.put(a_job(f"flood{at}", "flood", queued_us=at), 0)
    running = [queue.take(ANY, 0) for _ in range(slots)]
    for at in range(100):
        queue.put(a_job(f"few{at}", "few", queued_us=at), 0)
    served = Counter()
    for turn in range(100):
        done = running.pop(0)
        assert done is not None
        queue.ended(done.tenant)
        running.append(queue.take(ANY, 0))
        assert running[-1] is not None
        served[running[-1].tenant] += 1
        if turn + 1 == slots // 2:
            assert served == {"few": slots // 2}
    assert slots // 2 - 2 <= served["few"] - served["flood"] <= slots + 2, "and no more than the slots, ever"


def test_who_cannot_be_served_by_these_workers_saves_up_nothing_either() -> None:
    queue = FairQueue()
    for at in range(100):
        queue.put(a_job(f"m{at}", "only-m", model="m"), 0)
        queue.put(a_job(f"x{at}", "both", model="m"), 0)
        queue.put(a_job(f"y{at}", "both", model="n"), 0)
    for _ in range(50):
        job = queue.take({"n"}, 0)
        assert job is not None
        assert job.model == "n"
    order = Counter(job.tenant for _ in range(20) if (job := queue.take({"m"}, 0)) is not None)
    assert abs(order["only-m"] - order["both"]) <= 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["m", "n"])), max_size=30), st.data())
def test_a_worker_gets_something_wherever_something_waits_for_one_of_its_models(waiting, data: st.DataObject) -> None:
    queue = FairQueue()
    for at, (tenant, model) in enumerate(waiting):
        queue.put(a_job(str(at), tenant, model=model), 0)
    left = list(waiting)
    while left:
        models = frozenset(data.draw(st.sets(st.sampled_from(["m", "n"]), min_size=1)))
        job = queue.take(models, 0)
        assert (job is not None) == any(model in models for _, model in left)
        if job is None:
            break
        left.remove((job.tenant, job.model))


def test_a_tenant_has_no_more_running_than_it_may() -> None:
    queue = FairQueue()
    queue.set_limits({"a": Limits(max_running=2)})
    for at in range(5):
        queue.put(a_job(f"a{at}"), 0)
    queue.put(a_job("b0", "b"), 0)
    assert sorted(taken(queue)) == ["a0", "a1", "b0"]
    queue.ended("a")
    assert taken(queue) == ["a2"]
    queue.set_running({})
    assert taken(queue) == ["a3", "a4"]


def test_a_held_tenant_waits_until_limits_are_set_anew() -> None:
    queue = FairQueue()
    queue.put(a_job("a0"), 0)
    queue.put(a_job("b0", "b"), 0)
    queue.hold("a")
    assert taken(queue) == ["b0"]
    queue.set_limits({})
    assert taken(queue) == ["a0"]


def test_what_was_not_granted_after_all_is_first_again_and_uncharged() -> None:
    queue = FairQueue()
    queue.set_limits({"a": Limits(max_running=1)})
    for name in ("a0", "a1"):
        queue.put(a_job(name, queued_us=int(name[1])), 0)
    queue.put(a_job("b0", "b"), 0)
    job = queue.take(ANY, 0)
    assert job is not None
    assert job.job == "a0"
    queue.give_back(job, 0)
    assert taken(queue) == ["a0", "b0"]


def test_a_job_that_failed_waits_out_its_backoff() -> None:
    queue = FairQueue()
    queue.put(a_job("a0", not_before_us=1_000), 0)
    assert taken(queue) == []
    assert len(queue) == 1
    queue.wake(999)
    assert taken(queue) == []
    queue.wake(1_000)
    assert taken(queue) == ["a0"]


def test_the_newest_version_of_a_job_counts_however_late_the_others_come() -> None:
    queue = FairQueue()
    new = WaitingJob("a0", 4, 1, "a", "m", "64x64", 1, 0, 1.0, 0, not_before_us=500)
    queue.put(a_job("a0"), 0)
    queue.put(new, 0)
    queue.put(a_job("a0"), 0)
    assert queue.get("a0") == new
    assert taken(queue) == []
    queue.wake(500)
    assert taken(queue) == ["a0"]
    assert len(queue) == 0


def test_cancelled_jobs_leave_no_trace_however_many() -> None:
    queue = FairQueue()
    for round_ in range(20):
        for at in range(200):
            queue.put(a_job(f"{round_}/{at}", deadline_us=10**15), 0)
        for at in range(200):
            queue.discard(f"{round_}/{at}")
    assert len(queue) == 0
    assert list(queue.tenants(10)) == []
    lane = queue._tenants["a"].lanes._lanes["m"]
    assert len(lane.by_key._entries) < 600, "they do not pile up where nobody takes any"
    assert taken(queue) == []


SECOND = 1_000_000


def test_a_deadline_at_risk_goes_first_but_every_other_time_only() -> None:
    queue = FairQueue()
    for at in range(4):
        queue.put(a_job(f"old{at}", queued_us=at), 0)
        queue.put(a_job(f"soon{at}", queued_us=1_000 + at, deadline_us=(20 + at) * SECOND), 0)
    assert taken(queue) == ["soon0", "old0", "soon1", "old1", "soon2", "old2", "soon3", "old3"]


def test_a_deadline_that_is_far_changes_nothing() -> None:
    queue = FairQueue()
    queue.put(a_job("old"), 0)
    queue.put(a_job("far", queued_us=1, deadline_us=1_000 * SECOND), 0)
    assert taken(queue) == ["old", "far"]


def test_what_cannot_be_done_by_its_deadline_is_taken_out() -> None:
    queue = FairQueue()
    queue.put(a_job("can", cost_seconds=5.0, deadline_us=15 * SECOND), 0)
    queue.put(a_job("cannot", cost_seconds=10.0, deadline_us=15 * SECOND), 0)
    assert queue.infeasible(5 * SECOND) == []
    assert [job.job for job in queue.infeasible(5 * SECOND + 1)] == ["cannot"]
    assert queue.infeasible(5 * SECOND + 1) == []
    assert taken(queue) == ["can"]


def test_a_batch_is_filled_with_jobs_of_its_shape_by_fair_order_and_each_is_charged() -> None:
    queue = FairQueue()
    for at in range(6):
        queue.put(a_job(f"a{at}", "a", queued_us=at, size="64x64" if at % 2 else "8x8"), 0)
        queue.put(a_job(f"b{at}", "b", queued_us=at, size="64x64" if at % 2 else "8x8"), 0)
    first = queue.take(ANY, 0)
    assert first is not None
    joined = [queue.take(ANY, 0, first.shape) for _ in range(3)]
    assert [job.job for job in [first, *joined] if job is not None] == ["a0", "b0", "a2", "b2"]
    assert queue.take(ANY, 0, ("m", "1x1", 0)) is None
    assert [job.job for _ in range(2) if (job := queue.take(ANY, 0)) is not None] == ["a1", "b1"]
    late = a_job("b9", "b", queued_us=9, size="8x8")
    queue.put(late, 0)
    last = [job.job for _ in range(3) if (job := queue.take(ANY, 0, first.shape)) is not None]
    assert last == ["a4", "b4", "b9"], "what comes later can join too"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["1x1", "2x2"])), min_size=1, max_size=40))
def test_batches_keep_the_bound_between_tenants_but_for_one_batch(waiting) -> None:
    most_batch = 4
    queue = FairQueue()
    left: Counter[str] = Counter()
    for at, (tenant, size) in enumerate(waiting):
        queue.put(a_job(str(at), tenant, size=size, queued_us=at), 0)
        left[tenant] += 1
    served: Counter[str] = Counter()
    while left["a"] and left["b"]:
        batch = [queue.take(ANY, 0)]
        assert batch[0] is not None
        while len(batch) < most_batch and (job := queue.take(ANY, 0, batch[0].shape)) is not None:
            batch.append(job)
        for job in batch:
            assert job is not None
            assert job.shape == batch[0].shape
            left[job.tenant] -= 1
            served[job.tenant] += 1
        if left["a"] and left["b"]:
            assert abs(served["a"] - served["b"]) <= 2 + most_batch


@pytest.mark.parametrize("seen", [1, 5])
def test_what_runs_already_counts_when_a_pool_is_taken_over(seen: int) -> None:
    queue = FairQueue()
    queue.charge("a", float(seen))
    for at in range(10):
        queue.put(a_job(f"a{at}", "a"), 0)
        queue.put(a_job(f"b{at}", "b"), 0)
    order = [name[0] for name in taken(queue)]
    assert order[:seen] == ["b"] * seen
