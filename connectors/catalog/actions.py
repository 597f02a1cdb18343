"""What operators did by hand, who, and why: kept beside what it was done to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from headwater.connectors.catalog.client import Transaction


@dataclass(frozen=True, slots=True)
class Action:
    """``done`` False: it was about to be done, and may or may not have been."""

    id: int
    at: datetime
    operator: str
    action: str
    subject: str
    reason: str
    details: Any
    done: bool


def begin(transaction: Transaction, operator: str, action: str, subject: str, reason: str, details: object) -> int:
    """Record what is about to be done; returns its number."""
    row = transaction.execute(
        "INSERT INTO operator_actions (operator, action, subject, reason, details) VALUES (%s, %s, %s, %s, %s) "
        "RETURNING id",
        [operator, action, subject, reason, Jsonb(details)],
    ).fetchone()
    assert row is not None
    return int(row[0])


def finish(transaction: Transaction, number: int) -> None:
    transaction.execute("UPDATE operator_actions SET done = true WHERE id = %s", [number])


def newest(transaction: Transaction, limit: int) -> list[Action]:
    """Newest first."""
    with transaction.cursor(row_factory=class_row(Action)) as cursor:
        return cursor.execute(
            "SELECT id, at, operator, action, subject, reason, details, done FROM operator_actions "
            "ORDER BY id DESC LIMIT %s",
            [limit],
        ).fetchall()
