"""A history in which every promise is kept, and ways to break each: the verdict must catch every one of them.

``SOUND`` is five jobs of two tenants: ``second`` was completed by its second attempt after the first lost its lease
(and its order was posted twice), ``stopped`` was cancelled while it ran, ``late`` expired, ``bad`` failed for good, and
``plain`` was completed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

from jobs.checker import judge
from jobs.evidence import (
    Attempt,
    Change,
    Charge,
    Delivery,
    Effect,
    Event,
    Evidence,
    Granted,
    Job,
    Received,
    Shown,
    Submitted,
)  # fmt: skip

T = TypeVar("T")
SHA = "5e" * 32


def _history(job: str, *steps: tuple[str, int]) -> list[Change]:
    """Changes through these (state, epoch), the first of them the insertion."""
    befores = [None, *(state for state, _ in steps)]
    return [
        Change(job, before, state, number, epoch, epoch if state == "completed" else None)
        for number, (before, (state, epoch)) in enumerate(zip(befores, steps, strict=False), 1)
    ]


def _row(job: str, tenant: str, state: str, version: int, epoch: int) -> Job:
    if state != "completed":
        return Job(job, tenant, state, version, epoch, None, None, None)
    return Job(job, tenant, state, version, epoch, epoch, (f"r/{job}/{epoch}/video.mp4", 9, SHA), 40)


def webhook_id(job: str, type: str) -> str:
    return "wh_" + sha256(f"{job}.{type}".encode()).hexdigest()[:32]


_WAYS = {
    "second": [("queued", 0), ("granted", 1), ("running", 1), ("queued", 1), ("granted", 2), ("running", 2),
               ("completed", 2)],
    "stopped": [("queued", 0), ("granted", 1), ("running", 1), ("cancelling", 1), ("cancelled", 1)],
    "late": [("queued", 0), ("expired", 0)],
    "bad": [("queued", 0), ("granted", 1), ("running", 1), ("failed", 1)],
    "plain": [("queued", 0), ("granted", 1), ("running", 1), ("completed", 1)],
}  # fmt: skip
_TENANTS = {"second": "amber", "stopped": "amber", "late": "amber", "bad": "birch", "plain": "birch"}
_OUTCOMES = {"stopped": "cancelled", "bad": "failed", "plain": "completed"}
_CHANGES = [change for job, steps in _WAYS.items() for change in _history(job, *steps)]
_ENDS = {job: steps[-1][0] for job, steps in _WAYS.items()}
_ATTEMPTS = [
    Attempt("second", 1, "w1", 10, True, "lease_lost"),
    Attempt("second", 2, "w2", 20, True, "completed"),
    *(Attempt(job, 1, "w1", 11, True, outcome) for job, outcome in _OUTCOMES.items()),
]

SOUND = Evidence(
    submitted=[
        Submitted(f"order {job}", _TENANTS[job], (job, job) if job == "second" else (job,), frozenset({_ENDS[job]}))
        for job in _WAYS
    ],
    shown=[
        *(Shown("second", status, attempt) for status, attempt in
          [("queued", 0), ("in_progress", 1), ("queued", 1), ("in_progress", 2), ("completed", 2)]),
        *(Shown(job, _ENDS[job], 1) for job in _OUTCOMES),
    ],
    jobs=[_row(job, _TENANTS[job], *_WAYS[job][-1][:1], len(steps), steps[-1][1]) for job, steps in _WAYS.items()],
    changes=_CHANGES,
    effects=[
        Effect("granted", "second", 1, 1), Effect("claimed", "second", 1, 1), Effect("beat", "second", 1, 1),
        Effect("ended lease_lost", "second", 1, 1), Effect("granted", "second", 2, 2),
        Effect("claimed", "second", 2, 2), Effect("ended completed", "second", 2, 2), Effect("charged", "second", 2, 2),
    ],
    attempts=_ATTEMPTS,
    charges=[Charge("second", 2, "amber", 40), Charge("plain", 1, "birch", 40)],
    deliveries=[Delivery(webhook_id(job, f"video.{end}"), job, f"video.{end}", "delivered") for job, end in
                _ENDS.items()],
    received=[Received(webhook_id(job, f"video.{end}"), f"video.{end}", job, True, {"id": job, "status": end})
              for job, end in [*_ENDS.items(), ("plain", "completed")]],
    events=[Event(change.job, change.version, change.epoch, change.after) for change in [*_CHANGES, *_CHANGES[:3]]],
    granted=[Granted(one.job, one.epoch, one.worker, one.incarnation) for one in [*_ATTEMPTS, _ATTEMPTS[0]]],
    objects={"r/second/2/video.mp4": (9, SHA), "r/plain/1/video.mp4": (9, SHA), "r/second/1/video.mp4": (3, "00" * 32)},
    used={"amber": (40, 1), "birch": (40, 1)},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Forgery:
    """One broken promise, and the kind of finding that must name it."""

    name: str
    kind: str
    evidence: Evidence


def _one(rows: Sequence[T], **wanted: Any) -> T:
    return next(row for row in rows if all(getattr(row, name) == value for name, value in wanted.items()))


def _without(field: str, **wanted: Any) -> Evidence:
    rows = list(getattr(SOUND, field))
    rows.remove(_one(rows, **wanted))
    return replace(SOUND, **{field: rows})


def _changed(field: str, wanted: dict[str, Any], **new: Any) -> Evidence:
    rows = list(getattr(SOUND, field))
    old = _one(rows, **wanted)
    return replace(SOUND, **{field: [replace(old, **new) if row is old else row for row in rows]})  # type: ignore[type-var]


def _with(field: str, *rows: object) -> Evidence:
    return replace(SOUND, **{field: [*getattr(SOUND, field), *rows]})


def _redone(job: str, *steps: tuple[str, int]) -> Evidence:
    """The history of ``job`` is another, and so is its row."""
    changes = [*(change for change in SOUND.changes if change.job != job), *_history(job, *steps)]
    state, epoch = steps[-1]
    rows = [_row(job, _TENANTS[job], state, len(steps), epoch) if row.job == job else row for row in SOUND.jobs]
    return replace(SOUND, changes=changes, jobs=rows)


_LATE_ID = webhook_id("late", "video.expired")
FORGERIES: Sequence[Forgery] = [
    Forgery(name, kind, make())
    for name, kind, make in [
        ("an accepted job is gone", "lost", lambda: _without("jobs", job="late")),
        ("a job stands still", "lost", lambda: _redone("late", ("queued", 0), ("granted", 1))),
        ("a sound job failed", "lost", lambda: _changed("submitted", {"key": "order bad"}, ends={"completed"})),
        ("the lease of an ended job stays", "lost", lambda: replace(SOUND, leased=["plain"])),
        ("a change never left the outbox", "lost", lambda: replace(SOUND, untold=["plain"])),
        ("a change is not on the log", "lost", lambda: _without("events", job="bad", state="failed")),
        ("an attempt never ended", "lost", lambda: _changed("attempts", {"job": "bad"}, outcome=None)),
        ("the result is not in S3", "lost", lambda: replace(SOUND, objects={})),
        ("completed without a result", "lost", lambda: _changed("jobs", {"job": "plain"}, result=None)),
        ("completed without a charge", "lost", lambda: _without("charges", job="plain")),
        ("the webhook was not heard", "lost", lambda: _without("received", job="late")),
        ("the webhook waits", "lost", lambda: _changed("deliveries", {"job": "late"}, state="pending")),
        ("one order, two jobs", "duplicate",
         lambda: _changed("submitted", {"key": "order second"}, jobs=("second", "plain"))),
        ("two attempts completed it", "duplicate",
         lambda: _changed("attempts", {"job": "second", "epoch": 1}, outcome="completed")),
        ("two charges", "duplicate", lambda: _with("charges", Charge("plain", 1, "birch", 40))),
        ("two final events", "duplicate", lambda: _with("events", Event("plain", 5, 1, "failed"))),
        ("two webhook ids", "duplicate", lambda: _with("received",
         Received(webhook_id("plain", "video.failed"), "video.failed", "plain", True, {"id": "plain"}))),
        ("two rows of one webhook", "duplicate", lambda: _with("deliveries",
         Delivery("wh_other", "plain", "video.completed", "delivered"))),
        ("a second result", "duplicate", lambda: _with("changes",
         Change("plain", "completed", "completed", 4, 1, 2))),
        ("a stale epoch completed it", "stale",
         lambda: _changed("changes", {"job": "second", "after": "completed"}, result_epoch=1)),
        ("the result is a stale epoch's", "stale", lambda: _changed("jobs", {"job": "second"},
         result=("r/second/1/video.mp4", 3, "00" * 32))),
        ("the charge is a stale epoch's", "stale", lambda: _changed("charges", {"job": "second"}, epoch=1)),
        ("a stale claim", "stale", lambda: _with("effects", Effect("claimed", "second", 1, 2))),
        ("a stale beat", "stale", lambda: _with("effects", Effect("beat", "second", 1, 2))),
        ("a stale completion", "stale", lambda: _with("effects", Effect("ended completed", "second", 1, 2))),
        ("completed without a claim", "stale", lambda: _changed("attempts", {"job": "plain"}, claimed=False)),
        ("an epoch went back", "backwards", lambda: _redone("second", ("queued", 0), ("granted", 2), ("queued", 1))),
        ("a retry without a new epoch", "backwards", lambda: _redone("second", ("queued", 0), ("granted", 1),
         ("queued", 1), ("granted", 1))),
        ("a version twice", "backwards",
         lambda: _changed("changes", {"job": "plain", "after": "running"}, version=2)),
        ("a final state was taken back", "backwards", lambda: _with("shown", Shown("plain", "in_progress", 1))),
        ("an attempt was taken back", "backwards", lambda: _with("shown", Shown("bad", "failed", 0))),
        ("from queued to running", "transition", lambda: _redone("plain", ("queued", 0), ("running", 0))),
        ("from completed to queued", "transition",
         lambda: _redone("plain", *_WAYS["plain"], ("queued", 1))),
        ("from cancelling to completed", "transition",
         lambda: _redone("stopped", *_WAYS["stopped"][:4], ("completed", 1))),
        ("a change that nobody saw", "transition", lambda: _without("changes", job="bad", after="granted")),
        ("a job nobody ordered", "foreign", lambda: _without("submitted", key="order plain")),
        ("a webhook nobody asked for", "foreign",
         lambda: _changed("submitted", {"key": "order plain"}, hears=False)),
        ("an answer about no job", "foreign", lambda: _with("shown", Shown("never", "queued"))),
        ("attempts of no job", "foreign", lambda: _with("attempts", Attempt("never", 1, "w1", 10, True, "failed"))),
        ("a history without its insertion", "transition", lambda: _without("changes", job="late", after="queued")),
        ("a result of a failed job", "disagreement", lambda: _changed("jobs", {"job": "bad"}, result_epoch=1)),
        ("a charge for no job", "foreign", lambda: _with("charges", Charge("never", 1, "birch", 1))),
        ("an effect on no job", "foreign", lambda: _with("effects", Effect("granted", "never", 1, 1))),
        ("an event of no job", "foreign", lambda: _with("events", Event("never", 1, 0, "queued"))),
        ("other bytes in S3", "disagreement",
         lambda: replace(SOUND, objects=dict(SOUND.objects) | {"r/plain/1/video.mp4": (9, "00" * 32)})),
        ("the log says another state", "disagreement",
         lambda: _changed("events", {"job": "bad", "state": "failed"}, state="completed")),
        ("one epoch to two workers", "disagreement", lambda: _with("granted", Granted("plain", 1, "w9", 99))),
        ("another tenant's job", "disagreement", lambda: _changed("jobs", {"job": "late"}, tenant="birch")),
        ("the row is not where its history ends", "disagreement", lambda: _changed("jobs", {"job": "bad"}, version=9)),
        ("shown another end", "disagreement", lambda: _changed("shown", {"job": "bad"}, status="completed")),
        ("an attempt is missing", "disagreement", lambda: _without("attempts", job="second", epoch=1)),
        ("the charge is not the cost", "disagreement", lambda: _changed("charges", {"job": "plain"}, amount=41)),
        ("the sums are not the charges", "disagreement",
         lambda: replace(SOUND, used={"amber": (80, 2), "birch": (40, 1)})),
        ("one webhook, two bodies", "disagreement", lambda: _with("received",
         Received(_LATE_ID, "video.expired", "late", True, {"id": "late", "status": "queued"}))),
        ("a wrong signature", "disagreement", lambda: _changed("received", {"job": "late"}, signed=False)),
        ("the webhook of another end", "disagreement", lambda: _changed("jobs", {"job": "bad"}, state="expired")),
        ("an id that does not follow", "disagreement", lambda: replace(
            _changed("deliveries", {"job": "late"}, id="wh_1"),
            received=[replace(one, id="wh_1") if one.job == "late" else one for one in SOUND.received])),
    ]
]  # fmt: skip


def caught(forgery: Forgery) -> bool:
    return forgery.kind in {finding.kind for finding in judge(forgery.evidence)}


def checker_catches_forged() -> bool:
    """Every forgery is caught, and the sound history is not blamed."""
    return not judge(SOUND) and all(caught(forgery) for forgery in FORGERIES)
