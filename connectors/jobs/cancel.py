"""What an owner may do with a job of its own: cancel it, hide it, bring it back."""

from __future__ import annotations

from headwater.connectors.jobs import ends, reading
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.ends import Ending, Held, Move
from headwater.connectors.jobs.remains import UNDELETE_DAYS
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView

_WHY = "cancelled by its owner"


def cancel(transaction: Transaction, tenant: str, job: str) -> JobView | None:
    """The job afterwards; None: the tenant has no such job. A final one stays as it is.

    What no worker has begun ends at once. What runs is *cancelling* until its worker proves that it stopped, or loses
    its lease.
    """
    held = ends.held(
        transaction,
        "WHERE j.job = %s AND j.tenant = %s AND j.state IN ('queued', 'granted', 'running') ORDER BY j.job",
        [job, tenant],
    )
    for one in held:
        ends.move(transaction, [_first(one)])
        if one.state is JobState.granted:  # its claim will find nothing: there is nothing to prove
            ending = Ending(outcome="cancelled")
            ends.move(transaction, [Move(job, one.epoch, JobState.cancelled, _WHY, ending)])
    return reading.get(transaction, tenant, job)


def _first(held: Held) -> Move:
    after = JobState.cancelled if held.state is JobState.queued else JobState.cancelling
    return Move(held.job, held.epoch, after, _WHY)


def delete(transaction: Transaction, tenant: str, job: str) -> JobView | None:
    """Hides a final job from its owner's list; the job afterwards. One that is not final stays as it is."""
    transaction.execute(
        "UPDATE jobs SET deleted_at = coalesce(deleted_at, now()) "
        "WHERE job = %s AND tenant = %s AND completed_at IS NOT NULL",
        [job, tenant],
    )
    return reading.get(transaction, tenant, job)


def undelete(transaction: Transaction, tenant: str, job: str) -> JobView | None:
    """Brings a deleted job back, as long as its bytes may not have been removed; the job afterwards."""
    transaction.execute(
        "UPDATE jobs SET deleted_at = NULL "
        "WHERE job = %s AND tenant = %s AND deleted_at > now() - make_interval(days => %s)",
        [job, tenant, UNDELETE_DAYS],
    )
    return reading.get(transaction, tenant, job)
