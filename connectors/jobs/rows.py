"""From columns to nouns, and from lists of nouns to the arrays that statements take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from headwater.connectors.jobs.database import Transaction
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView

Noun = TypeVar("Noun")


class AttemptId(NamedTuple):
    """One attempt of a job: ``epoch`` is that of its grant."""

    job: str
    epoch: int


class Holder(NamedTuple):
    """A worker, in one of its lives."""

    worker: str
    incarnation: int


VIEW = """
    SELECT j.job, j.tenant, j.pool, j.model, j.state, j.version, j.epoch, j.result_epoch, j.request, j.priority,
        j.cost_seconds, j.deadline, j.created_at, j.queued_at, j.started_at, j.completed_at, j.expires_at, j.deleted_at,
        CASE WHEN j.state = 'running' AND l.steps > 0 THEN least(99, 100 * l.step / l.steps)
            ELSE j.progress END AS progress,
        coalesce(l.step, 0) AS step, coalesce(l.steps, 0) AS steps, j.reason, j.error_code, j.error_message,
        j.checkpoint, j.result, j.cost, j.webhook_url, j.retry_of
    FROM jobs j LEFT JOIN leases l ON l.job = j.job AND l.epoch = j.epoch
"""
"""The columns of JobView; a condition follows."""


def views(transaction: Transaction, condition: str, values: Sequence[object]) -> list[JobView]:
    with transaction.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute((VIEW + condition).encode(), values).fetchall()
    return [JobView(**row | {"state": JobState(row["state"])}) for row in rows]


def selected(transaction: Transaction, noun: type[Noun], query: str, values: Sequence[object] = ()) -> list[Noun]:
    """The rows as instances of ``noun``, whose fields the columns name."""
    with transaction.cursor(row_factory=class_row(noun)) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def columns(items: Iterable[Any], *names: str) -> dict[str, list[Any]]:
    """Each named field of all items as an array, for ``unnest``; mappings as jsonb."""
    listed = list(items)
    return {name: [_value(getattr(item, name)) for item in listed] for name in names}


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return Jsonb(value)
    if isinstance(value, str):  # PostgreSQL keeps no NUL, and the log of a model may hold one
        return str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return value
