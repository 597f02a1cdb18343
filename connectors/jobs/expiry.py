"""Leases that run out, and deadlines that pass. Only the database's clock says when.

A lease runs out for one reason only: its worker did not beat, while it could have. So

1. tick    who expires notes that it lives; endpoints do the same (``tick``)
2. judge   if the last tick of either is too old, nobody could beat or nobody looked: every lease is extended by a full
           term, and none ends (``watched``)
3. forget  workers of which nothing was heard for a term: what they had is granted to others (``workers``)
4. end     the leases that are over: their jobs are granted again at once, with a budget of its own

all in one transaction. A crash before its commit leaves the leases for the next look.
"""

from __future__ import annotations

from headwater.connectors.jobs import ends
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.ends import Ending, Held, Move
from headwater.rules.jobs.failures import FailurePolicy, Past, judge
from headwater.rules.jobs.states import JobState

SWEEP, ENDPOINT = "sweep", "endpoint"
_AT_ONCE = 500
_TOO_OLD_SECONDS = 2.0
"""Endpoints tick each second and the sweeper four times: two missed in a row."""


def tick(transaction: Transaction, name: str) -> float | None:
    """Note that ``name`` lives. Seconds since it did so before; None: never since the server crashed, if ever."""
    row = transaction.execute(
        """
        INSERT INTO alive (name, ticked_at) VALUES (%s, now())
        ON CONFLICT (name) DO UPDATE SET ticked_at = greatest(alive.ticked_at, excluded.ticked_at)
        RETURNING extract(epoch FROM now() - old.ticked_at)::float8
        """,
        [name],
    ).fetchone()
    assert row is not None
    return None if row[0] is None else float(row[0])


def watched(transaction: Transaction, term_seconds: float) -> bool:
    """Steps 1 and 2. False: all leases, and all workers, were given a full term instead."""
    if _could_beat(transaction):
        return True
    transaction.execute(
        "UPDATE leases SET expires_at = greatest(expires_at, now() + make_interval(secs => %s)) "
        "WHERE job IN (SELECT job FROM leases ORDER BY job FOR UPDATE)",
        [term_seconds],
    )
    transaction.execute("UPDATE workers SET seen_at = now() WHERE state <> 'gone'")
    return False


def expire_leases(transaction: Transaction, policy: FailurePolicy) -> list[tuple[Held, Move]]:
    """Step 4, for some hundred leases at most, each with what became of its job. Those that somebody holds at this
    moment are left for the next look."""
    held = ends.held(
        transaction,
        "JOIN leases due ON due.job = j.job AND due.epoch = j.epoch WHERE due.expires_at <= now() ORDER BY j.job "
        f"LIMIT {_AT_ONCE}",
        [],
        "FOR UPDATE OF j, due SKIP LOCKED",
    )
    moves = [lost(one, policy, "nothing was heard of its worker in time") for one in held]
    ends.move(transaction, moves)
    return list(zip(held, moves, strict=True))


def lost(held: Held, policy: FailurePolicy, why: str) -> Move:
    """What becomes of a job whose lease ended. That nobody claimed it is not counted: nothing ran."""
    ending = Ending(outcome="lease_lost", message=why)
    if held.state is JobState.cancelling:
        return Move(held.job, held.epoch, JobState.cancelled, "cancelled", ending)
    if held.state is JobState.granted:
        return Move(held.job, held.epoch, JobState.queued, "it was granted, but not begun", ending)
    past = Past(failures=held.failures, crashes=held.crashes, leases_lost=held.leases_lost)
    verdict = judge("lease_lost", past, policy, 0.0)
    if verdict.retry:
        return Move(held.job, held.epoch, JobState.queued, why, ending, leases_lost=verdict.past.leases_lost)
    message = f"{verdict.past.leases_lost} workers in a row stopped answering while they worked on it"
    return Move(
        held.job, held.epoch, JobState.failed, message, ending, verdict.code, message,
        leases_lost=verdict.past.leases_lost,
    )  # fmt: skip


def expire_deadlines(transaction: Transaction) -> list[Held]:
    """Jobs that nobody began in time: nobody will."""
    held = ends.held(
        transaction,
        "WHERE j.completed_at IS NULL AND j.deadline <= now() AND j.state IN ('queued', 'granted') ORDER BY j.job "
        f"LIMIT {_AT_ONCE}",
        [],
        "FOR NO KEY UPDATE OF j SKIP LOCKED",
    )
    why, ending = "its deadline passed before it began", Ending(outcome="expired")
    ends.move(
        transaction,
        [Move(one.job, one.epoch, JobState.expired, why, ending if one.worker else None) for one in held],
    )
    return held


def _could_beat(transaction: Transaction) -> bool:
    looked = tick(transaction, SWEEP)
    row = transaction.execute(
        "SELECT extract(epoch FROM now() - ticked_at)::float8 FROM alive WHERE name = %s", [ENDPOINT]
    ).fetchone()
    return looked is not None and looked <= _TOO_OLD_SECONDS and row is not None and row[0] <= _TOO_OLD_SECONDS
