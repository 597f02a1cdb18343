"""Objects that were verified once and are broken now: lost, or spoiled, in S3."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.counters import Tally


def condemn(transaction: Transaction, broken: Mapping[tuple[bytes, int], str]) -> Tally:
    """Verified to condemned, with the reason, by (hash, generation): what S3 had once it has no more."""
    named = sorted(broken)
    rows = transaction.execute(
        """
        UPDATE objects o SET state = 'condemned', detail = given.detail, changed_at = now()
        FROM unnest(%s::bytea[], %s::int[], %s::text[]) AS given (hash, generation, detail)
        WHERE o.hash = given.hash AND o.generation = given.generation AND o.state = 'verified'
        RETURNING o.source, o.size
        """,
        [[one[0] for one in named], [one[1] for one in named], [broken[one] for one in named]],
    )
    tally = Tally()
    for source, size in rows:
        tally[source, "objects_condemned"] += 1
        for name in ("claimed", "stored", "verified"):
            tally[source, f"objects_{name}"] -= 1
            tally[source, f"bytes_{name}"] -= size
    return tally
