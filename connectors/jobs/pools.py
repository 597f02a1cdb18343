"""Pools of workers and the models that they offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.connectors.jobs.database import Transaction
from headwater.connectors.kafka.partitioning import partition_of
from headwater.schemas.topics import JOBS_REQUESTED


class Board(NamedTuple):
    """What a pool's scheduler published, ``seconds`` ago; None: never."""

    pool: str
    board: dict[str, Any] | None
    seconds: float | None
    max_wait_seconds: float | None
    fallback: str | None


class ModelRow(NamedTuple):
    model: str
    pool: str
    capabilities: dict[str, Any]


_SETTABLE = ("fallback", "price", "max_wait_seconds")


def ensure(transaction: Transaction, pool: str) -> None:
    """The pool exists from now on."""
    transaction.execute(
        "INSERT INTO pools (pool, partition) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [pool, partition_of(pool.encode(), JOBS_REQUESTED.partitions)],
    )


def set_pool(transaction: Transaction, pool: str, changes: Mapping[str, object]) -> None:
    """Makes the pool or changes it. ``changes``: fallback, price, max_wait_seconds, those that shall change."""
    ensure(transaction, pool)
    for name in _SETTABLE:
        if name in changes:
            transaction.execute(f"UPDATE pools SET {name} = %s WHERE pool = %s".encode(), [changes[name], pool])


def boards(transaction: Transaction) -> list[Board]:
    found = transaction.execute(
        "SELECT pool, board, extract(epoch FROM now() - board_at)::float8, max_wait_seconds, fallback FROM pools"
    )
    return [Board(*row) for row in found]


def models(transaction: Transaction) -> list[ModelRow]:
    """What workers offered, ever: a pool may have none at this moment."""
    found = transaction.execute("SELECT model, pool, capabilities FROM models ORDER BY model, pool")
    return [ModelRow(*row) for row in found]
