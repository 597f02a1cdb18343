"""What a scheduler knows of its pool, and whom it would give what: facts in, wishes out, without a server."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.connectors.jobs.grants import ActiveWorker, Grants, Lease, Wish
from headwater.connectors.jobs.rows import AttemptId
from headwater.rules.jobs.fair_queue import Limits
from headwater.rules.jobs.waiting import WaitingJob
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind
from headwater.streams.dispatch.pool import Pool


def a_job(job: str, tenant: str = "a", version: int = 1, epoch: int = 0, **fields: object) -> WaitingJob:
    given = {"model": "m", "size": "8x8", "seconds": 1, "priority": 0, "cost_seconds": 1.0, "queued_us": 0}
    return WaitingJob(job, version, epoch, tenant, **{**given, **fields})  # type: ignore[arg-type]


def a_worker(name: str, slots: int, *models: str, incarnation: int = 1) -> ActiveWorker:
    return ActiveWorker(name, incarnation, slots, 0, frozenset(models or ("m",)))


def an_event(job: str, state: EventState, version: int, epoch: int, **fields: object) -> JobEvent:
    given = {"kind": JobEventKind.state, "pool": "p", "tenant": "a", "progress": 0, "reason": "", "at_us": 0}
    return JobEvent(job=job, state=state, version=version, epoch=epoch, **{**given, **fields})  # type: ignore[arg-type]


def grant_all(pool: Pool, now_us: int = 0) -> list[Wish]:
    wishes = pool.wishes(now_us, 100)
    outcome = Grants([AttemptId(wish.job, 1) for wish in wishes], [])
    pool.granted(outcome, wishes, now_us)
    return wishes


def a_pool(*workers: ActiveWorker, jobs: int = 0, batches: dict[str, int] | None = None) -> Pool:
    pool = Pool("p", 1)
    pool.set_workers(workers, batches or {})
    for at in range(jobs):
        pool.requested(a_job(str(at), queued_us=at), 0)
    return pool


def test_no_worker_gets_more_than_it_has_slots_and_the_emptiest_gets_first():
    pool = a_pool(a_worker("small", 1), a_worker("large", 4), jobs=10)
    wishes = grant_all(pool)
    assert Counter(wish.worker for wish in wishes) == {"small": 1, "large": 4}
    assert [wish.job for wish in wishes] == ["0", "1", "2", "3", "4"]
    assert pool.free == 0
    assert grant_all(pool) == []


def test_a_slot_that_comes_free_is_given_again_however_it_became_free():
    pool = a_pool(a_worker("w", 4), jobs=8)
    grant_all(pool)
    pool.heard(an_event("0", EventState.completed, 4, 1), 0)
    pool.heard(an_event("1", EventState.running, 3, 1, kind=JobEventKind.progress, reason="finishing"), 0)
    assert pool.free == 2
    assert [wish.job for wish in grant_all(pool)] == ["4", "5"]
    pool.heard(an_event("1", EventState.completed, 4, 1), 0)
    assert pool.free == 0, "its slot was free already"


def test_who_lost_a_job_gets_nothing_until_the_catalog_says_that_it_is_there():
    pool = a_pool(a_worker("w", 4), jobs=1)
    grant_all(pool)
    pool.set_workers([a_worker("w", 4), a_worker("v", 1)], {})
    pool.requested(a_job("0", version=5, epoch=1), 0)
    pool.requested(a_job("1", queued_us=1), 0)
    assert [(wish.job, wish.worker) for wish in grant_all(pool)] == [("0", "v")], "a retry keeps its place"
    pool.set_workers([a_worker("w", 4), a_worker("v", 1)], {})
    assert [(wish.job, wish.worker) for wish in grant_all(pool)] == [("1", "w")]


def test_late_and_repeated_records_change_nothing():
    pool = a_pool(a_worker("w", 2), jobs=2)
    grant_all(pool)
    pool.set_leases([Lease(job, 3, "a", "w", 1, "generating", 1.0) for job in "01"])
    for stale in (1, 2):
        pool.heard(an_event("0", EventState.queued, 4, stale), 0)
        pool.heard(an_event("0", EventState.completed, 4, stale), 0)
        pool.requested(a_job("0", version=4, epoch=stale), 0)
    assert pool.free == 0
    assert len(pool.queue) == 0
    pool.heard(an_event("0", EventState.completed, 9, 3), 0)
    pool.heard(an_event("0", EventState.completed, 9, 3), 0)
    assert pool.free == 1


def test_a_job_that_is_cancelled_while_it_waits_is_not_granted_and_one_that_runs_is_named():
    pool = a_pool(a_worker("w", 1), jobs=2)
    grant_all(pool)
    assert pool.heard(an_event("1", EventState.cancelled, 2, 0), 0) is None
    lease = pool.heard(an_event("0", EventState.cancelling, 4, 1), 0)
    assert lease is not None
    assert (lease.job, lease.epoch, lease.worker) == ("0", 1, "w")
    assert pool.free == 0, "until its worker proved that it stopped"
    pool.heard(an_event("0", EventState.cancelled, 5, 1), 0)
    assert pool.free == 1
    assert pool.wishes(0, 100) == []


def test_what_the_catalog_says_once_a_second_replaces_what_was_known():
    pool = a_pool(a_worker("w", 2), jobs=3)
    grant_all(pool)
    pool.set_leases([Lease("2", 1, "a", "other", 1, "granted", 1.0)])
    assert pool.free == 2
    assert len(pool.queue) == 0, "what has a lease does not wait"
    pool.set_workers([a_worker("w", 5, incarnation=2), a_worker("other", 1)], {})
    assert pool.free == 5
    assert (pool.slots, pool.leases.keys()) == (6, {"2"})


def test_the_end_of_an_older_incarnation_s_lease_frees_no_slot_of_the_new_one():
    pool = a_pool(a_worker("w", 1), jobs=1)
    grant_all(pool)
    pool.set_workers([a_worker("w", 1, incarnation=2)], {})
    pool.set_workers([a_worker("w", 2, incarnation=2)], {})
    before = pool.free
    pool.heard(an_event("0", EventState.queued, 3, 1), 0)
    assert pool.free == before


def test_a_job_goes_only_to_a_worker_that_has_its_model():
    pool = a_pool(a_worker("one", 4, "m"), a_worker("two", 4, "n"))
    for at in range(3):
        pool.requested(a_job(f"n{at}", model="n"), 0)
    pool.requested(a_job("x", model="x"), 0)
    assert {(wish.job, wish.worker) for wish in grant_all(pool)} == {("n0", "two"), ("n1", "two"), ("n2", "two")}
    assert pool.queue.get("x") is not None


def test_jobs_of_one_shape_go_together_to_a_worker_whose_model_does_several_at_once():
    pool = a_pool(a_worker("w", 4), a_worker("v", 4), batches={"m": 4})
    for at in range(8):
        pool.requested(a_job(str(at), queued_us=at, size="8x8" if at % 2 else "9x9"), 0)
    sizes_of = defaultdict(set)
    for wish in grant_all(pool):
        sizes_of[wish.worker].add(int(wish.job) % 2)
    assert sorted(sizes_of.values()) == [{0}, {1}]


def test_without_batches_the_load_is_spread():
    pool = a_pool(a_worker("w", 4), a_worker("v", 4), jobs=4)
    assert Counter(wish.worker for wish in grant_all(pool)) == {"w": 2, "v": 2}


def test_what_is_refused_waits_again_unless_it_is_gone_and_nothing_is_tried_in_vain():
    pool = a_pool(a_worker("w", 3), a_worker("v", 3))
    pool.queue.set_limits({"b": Limits(max_running=9)})
    for job, tenant in (("gone", "a"), ("full", "c"), ("limit", "b")):
        pool.requested(a_job(job, tenant), 0)
    wishes = pool.wishes(0, 100)
    [full_worker] = [wish.worker for wish in wishes if wish.job == "full"]
    pool.granted(Grants([], [("gone", "gone"), ("full", "worker"), ("limit", "tenant")]), wishes, 0)
    assert pool.queue.get("gone") is None
    again = pool.wishes(0, 100)
    assert [(wish.job, wish.worker != full_worker) for wish in again] == [("full", True)]
    pool.granted(Grants([AttemptId("full", 1)], []), again, 0)
    pool.set_workers([a_worker("w", 3), a_worker("v", 3)], {})
    pool.queue.set_limits({})
    assert [wish.job for wish in pool.wishes(0, 100)] == ["limit"]


def test_the_pace_is_what_jobs_cost_over_what_they_took():
    pool = a_pool(a_worker("w", 50))
    for at in range(200):
        pool.requested(a_job(str(at), cost_seconds=10.0), 0)
        grant_all(pool)
        pool.heard(an_event(str(at), EventState.completed, 4, 1), 5_000_000)
    assert 1.9 < pool.pace.value < 2.01


class Scheduling(RuleBasedStateMachine):
    """A catalog of lists beside the pool, whose word is lost, late or repeated: slots are never oversold, and once the
    catalog is read, nothing that could run is left waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool("p", 1)
        self.slots = {"w": 2, "v": 1}
        self.jobs: dict[str, list[object]] = {}  # version, epoch, worker or None or "done"
        self.events: list[tuple[str, int, int, str]] = []
        self.look()

    @rule(tenant=st.sampled_from("ab"), heard=st.booleans())
    def post(self, tenant: str, heard: bool) -> None:
        job = str(len(self.jobs))
        self.jobs[job] = [1, 0, None, tenant]
        if heard:
            self.pool.requested(a_job(job, tenant, queued_us=len(self.jobs)), 0)

    @rule(refuse=st.booleans())
    def grant(self, refuse: bool) -> None:
        wishes = self.pool.wishes(0, 10)
        outcome = Grants([], [])
        for wish in wishes:
            row = self.jobs[wish.job]
            busy = sum(other[2] == wish.worker for other in self.jobs.values())
            if row[2] is not None:
                outcome.refused.append((wish.job, "gone"))
            elif busy >= self.slots[wish.worker] or refuse:
                outcome.refused.append((wish.job, "worker"))
            else:
                row[0], row[1], row[2] = row[0] + 2, row[1] + 1, wish.worker
                outcome.granted.append(AttemptId(wish.job, row[1]))
        self.pool.granted(outcome, wishes, 0)

    @rule(data=st.data(), again=st.booleans())
    def end(self, data: st.DataObject, again: bool) -> None:
        running = [job for job, row in self.jobs.items() if row[2] in self.slots]
        if running:
            job = data.draw(st.sampled_from(running))
            row = self.jobs[job]
            row[0], row[2] = row[0] + 1, None if again else "done"
            self.events.append((job, row[0], row[1], "queued" if again else "completed"))

    @rule(data=st.data(), lost=st.booleans())
    def hear(self, data: st.DataObject, lost: bool) -> None:
        if self.events:
            job, version, epoch, state = data.draw(st.sampled_from(self.events))
            if lost:
                self.events.remove((job, version, epoch, state))
                return
            self.pool.heard(an_event(job, EventState(state), version, epoch), 0)
            if state == "queued":
                self.pool.requested(a_job(job, self.jobs[job][3], version, epoch, queued_us=int(job)), 0)

    @rule()
    def look(self) -> None:
        self.pool.queue.set_limits({})
        leases = [Lease(job, r[1], r[3], r[2], 1, "granted", 1.0) for job, r in self.jobs.items() if r[2] in self.slots]
        self.pool.set_leases(leases)
        self.pool.set_workers([a_worker(name, slots) for name, slots in self.slots.items()], {})

    @rule()
    def settle(self) -> None:
        """Everything is heard in the end: then what can run does."""
        self.look()
        for job, row in self.jobs.items():
            if row[2] is None:
                self.pool.requested(a_job(job, row[3], row[0], row[1], queued_us=int(job)), 0)
        for _ in range(20):
            self.grant(False)
            self.look()
        waiting = [row for row in self.jobs.values() if row[2] is None]
        busy = sum(row[2] in self.slots for row in self.jobs.values())
        assert busy == min(3, busy + len(waiting))

    @invariant()
    def slots_are_never_oversold(self) -> None:
        for name, slots in self.slots.items():
            assert sum(row[2] == name for row in self.jobs.values()) <= slots


Scheduling.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestScheduling = Scheduling.TestCase
