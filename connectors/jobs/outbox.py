"""What the log does not have yet. Rows are written by triggers, taken for a while, and deleted once they are told.

Whoever takes rows has them until ``taken_until``; one that dies leaves them to others after that. So a row may be told
twice, and out of order, which readers bear: they keep the highest version of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.connectors.jobs.database import Transaction


class Told(NamedTuple):
    """One change of a job's state. ``left_pool``: where it waited or ran before, if in another pool."""

    seq: int
    job: str
    version: int
    epoch: int
    state: str
    pool: str
    left_pool: str | None
    tenant: str
    model: str
    size: str
    seconds: str
    priority: int
    cost_seconds: float
    progress: int
    reason: str
    queued_us: int
    deadline_us: int | None
    not_before_us: int | None
    at_us: int
    trace: str | None


_TAKE = """
    WITH free AS MATERIALIZED (
        SELECT seq FROM outbox WHERE taken_until IS NULL OR taken_until < now() ORDER BY seq LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE outbox o SET taken_until = now() + make_interval(secs => %s) FROM free WHERE o.seq = free.seq
    RETURNING o.seq, job, version, epoch, state, pool, left_pool, tenant, model, size, seconds, priority, cost_seconds,
        progress, reason, (extract(epoch FROM queued_at) * 1000000)::bigint,
        (extract(epoch FROM deadline) * 1000000)::bigint, (extract(epoch FROM not_before) * 1000000)::bigint,
        (extract(epoch FROM at) * 1000000)::bigint, trace
"""


def take(transaction: Transaction, most: int, seconds: float) -> list[Told]:
    """At most so many rows that nobody has, the oldest first, for so long."""
    return sorted(Told(*row) for row in transaction.execute(_TAKE, [most, seconds]))


def keep_what_is_seen(transaction: Transaction) -> None:
    """This transaction's commit waits for the disk after all. What it saw of others that did not wait (``quiet``) lies
    before it in the server's log, and is there then too."""
    transaction.execute("SET LOCAL synchronous_commit = on")


def told(transaction: Transaction, seqs: Sequence[int]) -> None:
    """The log acknowledged them."""
    transaction.execute("DELETE FROM outbox WHERE seq = ANY(%s)", [list(seqs)])


def depth(transaction: Transaction) -> tuple[int, float]:
    """How many rows wait, about, and for how many seconds the oldest."""
    row = transaction.execute(
        "SELECT coalesce(max(seq) - min(seq) + 1, 0), coalesce(extract(epoch FROM now() - "
        "(SELECT at FROM outbox ORDER BY seq LIMIT 1)), 0)::float8 FROM outbox"
    ).fetchone()
    assert row is not None
    return row[0], max(0.0, row[1])
