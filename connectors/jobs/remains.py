"""What nobody needs any more: outputs of attempts that did not win, results whose time is over, old idempotency keys.

Bytes are removed between two transactions: one names them, the other notes that they are gone. A crash between the two
names them again. What is named stays so: no time that passed comes back, and no deleted job whose days are over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.rows import AttemptId

UNDELETE_DAYS = 7
"""So long a deleted job can be brought back; then its bytes go."""
_LEFTOVER_DAYS = 1
"""So long after its job's final state what an attempt left is kept: a worker that was cut off may still be writing."""
_KEY_HOURS = 24


class Leftover(NamedTuple):
    """An attempt of an ended job. ``won``: its result is kept, only its checkpoints are not needed."""

    job: str
    epoch: int
    won: bool

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.job, self.epoch)


def leftovers(transaction: Transaction, limit: int) -> list[Leftover]:
    found = transaction.execute(
        """
        SELECT a.job, a.epoch, a.epoch IS NOT DISTINCT FROM j.result_epoch
        FROM attempts a JOIN jobs j USING (job)
        WHERE a.swept_at IS NULL AND a.ended_at < now() - make_interval(days => %s)
            AND j.completed_at < now() - make_interval(days => %s)
        ORDER BY a.ended_at LIMIT %s
        """,
        [_LEFTOVER_DAYS, _LEFTOVER_DAYS, limit],
    )
    return [Leftover(*row) for row in found]


def swept(transaction: Transaction, attempts: Sequence[AttemptId]) -> None:
    """What they left is gone."""
    transaction.execute(
        "UPDATE attempts a SET swept_at = now() FROM unnest(%(job)s::text[], %(epoch)s::bigint[]) AS g(job, epoch) "
        "WHERE a.job = g.job AND a.epoch = g.epoch",
        rows.columns(attempts, "job", "epoch"),
    )


def expired(transaction: Transaction, limit: int) -> list[str]:
    """Jobs whose results need not be kept any longer: their days are over, or they were deleted some days ago."""
    found = transaction.execute(
        """
        (SELECT job FROM jobs WHERE removed_at IS NULL AND expires_at <= now() LIMIT %(limit)s)
        UNION
        (SELECT job FROM jobs WHERE removed_at IS NULL AND deleted_at <= now() - make_interval(days => %(days)s)
         LIMIT %(limit)s)
        """,
        {"limit": limit, "days": UNDELETE_DAYS},
    )
    return [row[0] for row in found]


def removed(transaction: Transaction, jobs: Sequence[str]) -> None:
    """Their bytes are gone."""
    transaction.execute("UPDATE jobs SET removed_at = now() WHERE job = ANY(%s)", [sorted(jobs)])


def forget_keys(transaction: Transaction, limit: int) -> int:
    """Idempotency keys that are old enough; how many were forgotten."""
    done = transaction.execute(
        "DELETE FROM idempotency WHERE ctid = ANY(ARRAY("
        "SELECT ctid FROM idempotency WHERE created_at < now() - make_interval(hours => %s) LIMIT %s))",
        [_KEY_HOURS, limit],
    )
    return done.rowcount
