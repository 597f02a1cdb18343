"""Progress counters, changed in the transaction that changes the state they count: nothing counts rows.

``files`` and ``bytes`` count the paths of a source as they are now, ``weak_files`` those with the weak guarantee.
``objects_claimed``, ``objects_stored`` and ``objects_verified`` (and their bytes) count stored content that reached at
least that state; what is torn or condemned is taken off again. So claimed - stored waits to be sent, stored - verified
waits to be verified, and at rest all agree.
"""

from __future__ import annotations

from collections import Counter

from headwater.connectors.catalog.client import Transaction

Tally = Counter[tuple[str, str]]
"""(source, counter name) -> change."""


def total(*tallies: Tally) -> Tally:
    """Their sum; unlike ``+`` of Counter it keeps what is below zero."""
    summed = Tally()
    for tally in tallies:
        summed.update(tally)
    return summed


def add(transaction: Transaction, tally: Tally) -> None:
    """Apply the changes. Call it last in a transaction: these rows are shared by all uploaders of a source."""
    changes = sorted((source, name, change) for (source, name), change in tally.items() if change)
    if not changes:
        return
    sources, names, values = zip(*changes, strict=True)
    transaction.execute(
        """
        INSERT INTO counters AS c (source, name, value)
        SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[])
        ON CONFLICT (source, name) DO UPDATE SET value = c.value + excluded.value
        """,
        [list(sources), list(names), list(values)],
    )
