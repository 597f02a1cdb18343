"""The verdict on a run, from evidence alone. It knows the promises and none of the code that is to keep them.

lost          an accepted job is not there, does not end, ends as it must not, or ends and nobody is told
duplicate     two jobs of one order, two results, charges, final events or webhook ids of one job
stale         an attempt that was no longer the newest had an effect
backwards     an epoch, a version, or a state that somebody was shown, went back
transition    a change of state that the table of the design does not have
foreign       a job, an effect or a webhook that nobody ordered
disagreement  catalog, log, S3, webhooks and answers do not say the same of a job
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TypeVar

from jobs.evidence import Change, Evidence, Job

KINDS = ("lost", "duplicate", "stale", "backwards", "transition", "foreign", "disagreement")

FINAL = frozenset({"completed", "failed", "cancelled", "expired"})
TABLE: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"queued"}),
    "queued": frozenset({"granted", "cancelling", "cancelled", "expired", "failed"}),
    "granted": frozenset({"running", "queued", "cancelling", "expired"}),
    "running": frozenset({"completed", "failed", "queued", "cancelling"}),
    "cancelling": frozenset({"cancelled"}),
}
"""Copied from the design by hand, so that a wrong table in the product is found. None: before the job was inserted."""

_PUBLIC = {"granted": "queued", "running": "in_progress"}
_RANK = {"queued": 0, "in_progress": 0, "cancelling": 1} | dict.fromkeys(FINAL, 2)
_EVERYBODYS = frozenset({"ended lease_lost", "ended released", "ended cancelled", "ended expired", "ended superseded"})
"""What others write about an attempt that is over, whenever they find it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken promise. The subject is a job, an order or a key; the same fault found again is equal."""

    kind: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.detail}"


def judge(evidence: Evidence) -> list[Finding]:
    """Every broken promise, in the order of ``KINDS``."""
    jobs = {job.job: job for job in evidence.jobs}
    found = [
        *_orders(evidence, jobs),
        *_answers(evidence, jobs),
        *_rest(evidence),
        *_changes(evidence, jobs),
        *_effects(evidence, jobs),
        *_attempts(evidence, jobs),
        *_results(evidence),
        *_charges(evidence, jobs),
        *_webhooks(evidence, jobs),
        *_log(evidence, jobs),
    ]
    return sorted(set(found), key=lambda one: (KINDS.index(one.kind), one))


def _orders(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    for order in evidence.submitted:
        if len(set(order.jobs)) > 1:
            yield Finding("duplicate", order.key, f"one order is the jobs {sorted(set(order.jobs))}")
        for name in order.jobs:
            job = jobs.get(name)
            if job is None:
                yield Finding("lost", name, "was accepted, and the catalog does not have it")
            elif job.state not in FINAL:
                yield Finding("lost", name, f"was accepted, and is still {job.state}")
            elif job.state not in order.ends:
                yield Finding("lost", name, f"ended {job.state}, and its order may end {sorted(order.ends)}")
            elif job.tenant != order.tenant:
                yield Finding("disagreement", name, f"is {job.tenant}'s, and {order.tenant} ordered it")
    ordered = {name for order in evidence.submitted for name in order.jobs}
    for name in jobs.keys() - ordered:
        yield Finding("foreign", name, "nobody ordered it, or nobody was told of it")


def _answers(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    """What a client saw of a job only goes forward, and ends where the job ends."""
    for name, seen in _by(evidence.shown, lambda shown: shown.job).items():
        for before, after in pairwise(seen):
            final = before.status in FINAL and after.status != before.status
            if final or _RANK[after.status] < _RANK[before.status] or after.attempt < before.attempt:
                yield Finding("backwards", name, f"was shown {before.status}, then {after.status}")
        if name not in jobs:
            yield Finding("foreign", name, "was shown, and the catalog does not have it")
        elif seen[-1].status != _PUBLIC.get(jobs[name].state, jobs[name].state):
            yield Finding("disagreement", name, f"was shown {seen[-1].status} at rest, and is {jobs[name].state}")


def _rest(evidence: Evidence) -> Iterator[Finding]:
    for name in evidence.leased:
        yield Finding("lost", name, "holds a lease, and nothing runs any more")
    for name in evidence.untold:
        yield Finding("lost", name, "a change of it never left the outbox")


def _changes(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    history = _by(evidence.changes, lambda change: change.job)
    for name, changes in history.items():
        if name not in jobs:
            yield Finding("foreign", name, "has a history, and the catalog does not have it")
        yield from _history(name, changes)
    for name, job in jobs.items():
        last = history[name][-1] if name in history else None
        if last is None or (last.after, last.version, last.epoch) != (job.state, job.version, job.epoch):
            yield Finding("disagreement", name, f"its history ends with {last}, its row says {job}")


def _history(name: str, changes: Sequence[Change]) -> Iterator[Finding]:
    if [change.before for change in changes[:1]] != [None]:
        yield Finding("transition", name, "its history does not begin with its insertion")
    for before, change in zip([None, *changes], changes, strict=False):
        if change.before != change.after and change.after not in TABLE.get(change.before, frozenset()):
            yield Finding("transition", name, f"from {change.before} to {change.after}")
        if change.after == "completed" and change.before != "completed" and change.result_epoch != change.epoch:
            yield Finding("stale", name, f"epoch {change.result_epoch} completed it, and {change.epoch} was the newest")
        if before is None:
            continue
        if before.after != change.before:
            yield Finding("transition", name, f"was {before.after}, and went on from {change.before}")
        if change.epoch < before.epoch or change.version < before.version:
            yield Finding("backwards", name, f"epoch, version {before.epoch, before.version} then "
                          f"{change.epoch, change.version}")  # fmt: skip
        if change.after != change.before and change.version != before.version + 1:
            yield Finding("backwards", name, f"version {change.version} follows {before.version} with a new state")
        if (change.epoch - before.epoch) != (change.after == "granted" != change.before):
            yield Finding("backwards", name, f"epoch {before.epoch} to {change.epoch} from {change.before} to "
                          f"{change.after}: a grant, and nothing else, takes the next")  # fmt: skip
        if before.result_epoch is not None and change.result_epoch != before.result_epoch:
            yield Finding("duplicate", name, f"result of epoch {before.result_epoch}, then {change.result_epoch}")


def _effects(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    for effect in evidence.effects:
        if effect.job not in jobs:
            yield Finding("foreign", effect.job, f"{effect.what}, and the catalog does not have it")
        elif effect.epoch != effect.newest and effect.what not in _EVERYBODYS:
            yield Finding("stale", effect.job, f"epoch {effect.epoch} {effect.what}, and {effect.newest} was newest")


def _attempts(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    attempts = _by(evidence.attempts, lambda attempt: attempt.job)
    for name, job in jobs.items():
        mine = attempts.get(name, [])
        epochs = sorted(attempt.epoch for attempt in mine)
        if epochs != list(range(1, job.epoch + 1)):
            yield Finding("disagreement", name, f"has attempts {epochs}, and epoch {job.epoch}")
        won = [attempt.epoch for attempt in mine if attempt.outcome == "completed"]
        if len(won) > 1:
            yield Finding("duplicate", name, f"the attempts {won} completed it")
        elif won != [job.result_epoch] * (job.state == "completed"):
            yield Finding("disagreement", name, f"{job.state} with result {job.result_epoch}; completed: {won}")
        for attempt in mine:
            if attempt.outcome is None and job.state in FINAL:
                yield Finding("lost", name, f"ended, and its attempt {attempt.epoch} has no outcome")
            elif attempt.outcome == "completed" and not attempt.claimed:
                yield Finding("stale", name, f"attempt {attempt.epoch} completed what it never claimed")
    for name in attempts.keys() - jobs.keys():
        yield Finding("foreign", name, "has attempts, and the catalog does not have it")


def _results(evidence: Evidence) -> Iterator[Finding]:
    for job in evidence.jobs:
        if job.state != "completed":
            if job.result is not None or job.result_epoch is not None:
                yield Finding("disagreement", job.job, f"is {job.state}, and has a result")
            continue
        if job.result is None or job.result_epoch is None:
            yield Finding("lost", job.job, "completed, and has no result")
            continue
        key, size, digest = job.result
        if not key.startswith(f"r/{job.job}/{job.result_epoch}/"):
            yield Finding("stale", job.job, f"epoch {job.result_epoch} completed it, and its result is {key}")
        if key not in evidence.objects:
            yield Finding("lost", job.job, f"its result {key} is not in S3")
        elif evidence.objects[key] != (size, digest):
            yield Finding("disagreement", job.job, f"{key} is {evidence.objects[key]} in S3, not {size, digest}")


def _charges(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    charges = _by(evidence.charges, lambda charge: charge.job)
    for name, mine in charges.items():
        if len(mine) > 1:
            yield Finding("duplicate", name, f"{len(mine)} charges")
        if name not in jobs:
            yield Finding("foreign", name, "was charged, and the catalog does not have it")
            continue
        if jobs[name].state == "completed" and mine[0].epoch != jobs[name].result_epoch:
            yield Finding("stale", name, f"charged for epoch {mine[0].epoch}, result of {jobs[name].result_epoch}")
        if (mine[0].tenant, mine[0].amount) != (jobs[name].tenant, jobs[name].cost):
            yield Finding("disagreement", name, f"charged {mine[0]}, and shown the cost {jobs[name].cost}")
    for name, job in jobs.items():
        if job.state == "completed" and name not in charges:
            yield Finding("lost", name, "completed, and was not charged")
    for tenant, mine in _by(evidence.charges, lambda charge: charge.tenant).items():
        summed = (sum(charge.amount for charge in mine), len(mine))
        if evidence.used.get(tenant) != summed:
            yield Finding("disagreement", tenant, f"used {evidence.used.get(tenant)}, and its charges are {summed}")


def _webhooks(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    kept = _by(evidence.deliveries, lambda delivery: delivery.job)
    heard = _by(evidence.received, lambda received: received.job)
    hears = {name for order in evidence.submitted if order.hears for name in order.jobs}
    for name, job in jobs.items():
        ids = {one.id for one in kept.get(name, ())} | {one.id for one in heard.get(name, ())}
        types = {one.type for one in kept.get(name, ())} | {one.type for one in heard.get(name, ())}
        if len(ids) > 1 or len(types) > 1:
            yield Finding("duplicate", name, f"final webhooks {sorted(ids)} of {sorted(types)}")
        elif ids and ids != {_webhook_id(name, types.copy().pop())}:
            yield Finding("disagreement", name, f"webhook id {ids.pop()} does not follow from {types.pop()}")
        elif types and types != {f"video.{job.state}"}:
            yield Finding("disagreement", name, f"{types.pop()}, and it is {job.state}")
        if name in hears and job.state in FINAL and name not in heard:
            yield Finding("lost", name, f"ended {job.state}, and its webhook was not heard")
        if any(one.state != "delivered" for one in kept.get(name, ())):
            yield Finding("lost", name, "its webhook is not delivered at rest")
        if len({repr(sorted(one.data.items())) for one in heard.get(name, ())}) > 1:
            yield Finding("disagreement", name, "one webhook id, and two bodies")
        if any(not one.signed for one in heard.get(name, ())):
            yield Finding("disagreement", name, "a webhook's signature is wrong")
    for name in heard.keys() - hears:
        yield Finding("foreign", name, "a webhook that nobody asked for")


def _webhook_id(job: str, type: str) -> str:
    return "wh_" + sha256(f"{job}.{type}".encode()).hexdigest()[:32]


def _log(evidence: Evidence, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    """Records may come late, again and in any order: what they say of a version is what the catalog said."""
    changed = {(change.job, change.version): (change.after, change.epoch) for change in evidence.changes
               if change.after != change.before}  # fmt: skip
    said: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    for event in evidence.events:
        said[event.job, event.version].add((event.state, event.epoch))
    for (name, version), states in said.items():
        if name not in jobs:
            yield Finding("foreign", name, "is on the log, and the catalog does not have it")
        elif states != {changed.get((name, version))}:
            yield Finding("disagreement", name, f"version {version}: the log has {sorted(states)}, the catalog "
                          f"{changed.get((name, version))}")  # fmt: skip
    finals = Counter(name for (name, _), states in said.items() for state, _ in states if state in FINAL)
    for name in jobs:
        if finals[name] > 1:
            yield Finding("duplicate", name, f"{finals[name]} final events")
    for name, version in changed.keys() - said.keys():
        yield Finding("lost", name, f"its version {version} never came on the log")
    holders = {(one.job, one.epoch): (one.worker, one.incarnation) for one in evidence.attempts}
    for grant in evidence.granted:
        if holders.get((grant.job, grant.epoch)) != (grant.worker, grant.incarnation):
            yield Finding("disagreement", grant.job, f"{grant}, and the catalog gave it to "
                          f"{holders.get((grant.job, grant.epoch))}")  # fmt: skip


def _by(rows: Iterable[T], key: Callable[[T], Hashable]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for row in rows:
        found[str(key(row))].append(row)
    return dict(found)
