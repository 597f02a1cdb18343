"""Deletes that wait for an operator: the agent says which, a person consents, the agent takes the consent.

1. say      the agent writes what it holds back, and keeps it up to date
2. consent  the operator's word to exactly the number that was shown, recorded as an action in the same transaction
3. take     the agent notes the consent in its index, then removes the row

A crash between the two halves of 3 leaves the row: the agent notes the same number again. Were there more deletes by
then, they are held back again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.catalog import actions
from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.sources import Ownership
from headwater.rules.errors import Refused


@dataclass(frozen=True, slots=True)
class Halt:
    """``paths`` would be deleted, all below the directory ``subtree`` (empty: the root); ``consented``: so many may."""

    reason: str
    paths: int
    subtree: bytes
    examples: tuple[bytes, ...]
    since: datetime | None = None
    consented: int | None = None


def say(transaction: Transaction, owner: Ownership, halt: Halt) -> None:
    """Step 1, as the source's owner; what an operator consented to stays."""
    transaction.execute(
        "INSERT INTO source_halts (source, reason, paths, subtree, examples) "
        "SELECT source, %s, %s, %s, %s FROM sources WHERE source = %s AND epoch = %s AND index_id = %s "
        "ON CONFLICT (source) DO UPDATE SET reason = excluded.reason, paths = excluded.paths, "
        "subtree = excluded.subtree, examples = excluded.examples",
        [halt.reason, halt.paths, halt.subtree, list(halt.examples), owner.source, owner.epoch, owner.index_id],
    )


def lift(transaction: Transaction, owner: Ownership) -> None:
    """Nothing waits any more, or the consent is noted."""
    transaction.execute(
        "DELETE FROM source_halts USING sources s WHERE source_halts.source = s.source "
        "AND s.source = %s AND s.epoch = %s AND s.index_id = %s",
        [owner.source, owner.epoch, owner.index_id],
    )


def waiting(transaction: Transaction, source: str) -> Halt | None:
    """What the source holds back, if anything."""
    row = transaction.execute(
        "SELECT reason, paths, subtree, examples, since, consented FROM source_halts WHERE source = %s", [source]
    ).fetchone()
    if row is None:
        return None
    reason, paths, subtree, examples, since, consented = row
    return Halt(reason, paths, bytes(subtree), tuple(bytes(path) for path in examples), since, consented)


def consent(transaction: Transaction, source: str, shown: Halt, operator: str, reason: str) -> None:
    """Step 2. Raises Refused where the number of paths is no longer the one that was shown."""
    details = {"paths": shown.paths, "subtree": shown.subtree.hex(), "why": shown.reason}
    number = actions.begin(transaction, operator, "consent to deletes", source, reason, details)
    done = transaction.execute(
        "UPDATE source_halts SET consented = paths WHERE source = %s AND paths = %s", [source, shown.paths]
    )
    if not done.rowcount:
        raise Refused(
            f"not the {shown.paths:,} paths wait any more that were shown.",
            asked=f"To consent to deletes of source {source!r}:",
            kept="Nothing was deleted or consented to.",
            advice="Look again: other paths went missing, or some came back.",
        )
    actions.finish(transaction, number)
