"""Workers: who is there, in which of its lives. A restarted one is a new incarnation, and ends what it had before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from headwater.connectors.jobs import ends, expiry, pools
from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.rows import Holder
from headwater.connectors.kafka.partitioning import partition_of
from headwater.rules.errors import Fenced
from headwater.rules.jobs.failures import FailurePolicy
from headwater.schemas.topics import JOBS_GRANTS


def register(
    transaction: Transaction,
    holder: Holder,
    *,
    pool: str,
    slots: int,
    host: str,
    models: Mapping[str, Mapping[str, Any]],
    policy: FailurePolicy,
) -> int:
    """Its partition of jobs.grants. ``models``: the capabilities of each. The pool is made where there is none.

    What older incarnations of the worker hold ends at once. Raises Fenced where a newer one is registered.
    """
    pools.ensure(transaction, pool)
    partition = partition_of(holder.worker.encode(), JOBS_GRANTS.partitions)
    done = transaction.execute(
        """
        INSERT INTO workers AS w (worker, incarnation, pool, slots, models, partition, host)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (worker) DO UPDATE SET incarnation = excluded.incarnation, pool = excluded.pool,
            slots = excluded.slots, models = excluded.models, partition = excluded.partition, host = excluded.host,
            state = 'active', registered_at = now(), seen_at = now()
        WHERE w.incarnation <= excluded.incarnation
        """,
        [*holder, pool, slots, sorted(models), partition, host],
    )
    if not done.rowcount:
        raise Fenced(
            f"a newer start of worker {holder.worker!r} is registered.",
            asked=f"To register it as started at {holder.incarnation}:",
            kept="The newer one keeps its jobs.",
            advice="Two workers may not bear one name: give one of them another.",
        )
    _offer(transaction, pool, models)
    _end_older(transaction, holder, policy)
    return partition


def _offer(transaction: Transaction, pool: str, models: Mapping[str, Mapping[str, Any]]) -> None:
    for model in sorted(models):
        transaction.execute(
            """
            INSERT INTO models AS m (model, pool, capabilities) VALUES (%s, %s, %s)
            ON CONFLICT (model, pool) DO UPDATE SET capabilities = excluded.capabilities, changed_at = now()
            WHERE m.capabilities <> excluded.capabilities
            """,
            [model, pool, Jsonb(dict(models[model]))],
        )


def _end_older(transaction: Transaction, holder: Holder, policy: FailurePolicy) -> None:
    held = ends.held(
        transaction,
        "WHERE j.job IN (SELECT o.job FROM leases o WHERE o.worker = %s AND o.incarnation < %s) "
        "AND l.worker = %s AND l.incarnation < %s AND j.completed_at IS NULL AND j.state <> 'queued' ORDER BY j.job",
        [*holder, *holder],
    )
    ends.move(transaction, [expiry.lost(one, policy, "its worker started anew") for one in held])


def seen(transaction: Transaction, holder: Holder, *, draining: bool) -> bool:
    """False: no worker is registered in this incarnation."""
    done = transaction.execute(
        "UPDATE workers SET seen_at = now(), state = %s WHERE worker = %s AND incarnation = %s",
        ["draining" if draining else "active", *holder],
    )
    return bool(done.rowcount)


def forget_silent(transaction: Transaction, silent_seconds: float) -> list[str]:
    """Workers of which nothing was heard for so long are gone: none is granted a job until it beats, or registers."""
    gone = transaction.execute(
        "UPDATE workers SET state = 'gone' WHERE state <> 'gone' AND seen_at < now() - make_interval(secs => %s) "
        "RETURNING worker",
        [silent_seconds],
    )
    return [row[0] for row in gone]
