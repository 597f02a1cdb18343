"""Content that was put off: a claim that stays open, with the reason in its detail, after its records were passed.

No record of the log brings such a claim again, so its detail stays until verify has judged the content: what is still
to be sent, or was stored and perhaps never announced, is found by it. Everything here is written as the holder of the
input partition; call ``objects.hold_partitions`` first in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.objects import CLAIM_COLUMNS, Claim, Owner, Wanted, claim_of, fenced, owner_columns

COUNTED = 1_000
"""Of each source: a source that is away as a whole may have millions, and progress is asked for every second."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """Contents of a source that wait for its root: how many, for how long the one that waits longest, and why."""

    count: int
    seconds: float
    reason: str

    @property
    def or_more(self) -> bool:
        """Whether counting stopped at the limit."""
        return self.count >= COUNTED


def put_off(transaction: Transaction, topic: str | None = None) -> dict[str, PutOff]:
    """What waits, by the source that claimed it first; of all lanes, or of the one that reads ``topic``."""
    rows = transaction.execute(
        """
        SELECT s.source, waits.count, waits.seconds, waits.reason
        FROM sources s, LATERAL (
            SELECT count(*), extract(epoch FROM now() - min(coalesce(deferred_at, changed_at)))::float8 AS seconds,
                   (array_agg(detail ORDER BY deferred_at))[1] AS reason
            FROM (SELECT deferred_at, changed_at, detail FROM objects o
                  WHERE o.source = s.source AND state = 'uploading' AND detail <> ''
                      AND claim_topic = coalesce(%s, claim_topic)
                  ORDER BY deferred_at LIMIT %s) first
        ) waits
        WHERE waits.count > 0 ORDER BY s.source
        """,
        [topic, COUNTED],
    )
    return {source: PutOff(count, seconds, reason) for source, count, seconds, reason in rows}


def defer(transaction: Transaction, reasons: Mapping[Claim, str]) -> None:
    """Say why these claims wait. Raises Fenced when one of them is no longer ours."""
    if not reasons:
        return
    rows = transaction.execute(
        """
        UPDATE objects o SET detail = given.detail, changed_at = now(), deferred_at = coalesce(o.deferred_at, now())
        FROM unnest(%s::bytea[], %s::int[], %s::text[], %s::text[], %s::int[], %s::bigint[])
            AS given (hash, generation, detail, topic, partition, epoch)
        WHERE o.hash = given.hash AND o.generation = given.generation AND o.state = 'uploading'
            AND (o.claim_topic, o.claim_partition, o.claim_epoch) = (given.topic, given.partition, given.epoch)
        RETURNING o.hash
        """,
        [
            [one.hash for one in reasons],
            [one.generation for one in reasons],
            list(reasons.values()),
            *owner_columns(one.owner for one in reasons),
        ],
    )
    kept = {row[0] for row in rows}
    lost = {one.owner for one in reasons if one.hash not in kept}
    if lost:
        raise fenced(lost)


def waiting(transaction: Transaction, topic: str, partitions: Iterable[int]) -> dict[int, dict[str, int]]:
    """How many contents were put off in each of these partitions, by the source that claimed them first."""
    rows = transaction.execute(
        "SELECT claim_partition, source, count(*) FROM objects WHERE claim_topic = %s AND claim_partition = ANY(%s) "
        "AND state = 'uploading' AND detail <> '' GROUP BY claim_partition, source",
        [topic, sorted(set(partitions))],
    )
    found: dict[int, dict[str, int]] = {}
    for partition, source, count in rows:
        found.setdefault(partition, {})[source] = count
    return found


def take_over(
    transaction: Transaction,
    owners: Iterable[Owner],
    limit: int,
    *,
    of: Iterable[str] | None = None,
    not_of: Iterable[str] = (),
) -> list[Claim]:
    """Those of the partitions' deferred claims that wait longest, under the owners' epochs, at most ``limit``.

    ``of`` these sources, where it is given; else of any but ``not_of``.
    """
    rows = transaction.execute(
        f"""
        UPDATE objects o SET claim_epoch = waits.epoch, changed_at = now()
        FROM (SELECT hash, generation, given.epoch
              FROM unnest(%s::text[], %s::int[], %s::bigint[]) AS given (topic, partition, epoch)
              JOIN objects ON claim_topic = given.topic AND claim_partition = given.partition
              WHERE state = 'uploading' AND detail <> ''
                  AND (source = ANY(%s::text[])) <> %s
              ORDER BY changed_at LIMIT %s) waits
        WHERE o.hash = waits.hash AND o.generation = waits.generation
        RETURNING {CLAIM_COLUMNS}
        """.encode(),
        [*owner_columns(owners), list(not_of if of is None else of), of is None, limit],
    )
    return [claim_of(row, resumed=True) for row in rows]


def adopt(transaction: Transaction, wanted: Sequence[Wanted]) -> list[Claim]:
    """Deferred claims on these contents, for the partitions that want them now: perhaps their source has the bytes."""
    if not wanted:
        return []
    first = {one.hash: one for one in reversed(wanted)}
    given = [first[content] for content in sorted(first)]
    rows = transaction.execute(
        f"""
        UPDATE objects o SET claim_topic = given.topic, claim_partition = given.partition, claim_epoch = given.epoch,
            changed_at = now()
        FROM unnest(%s::bytea[], %s::text[], %s::int[], %s::bigint[]) AS given (hash, topic, partition, epoch)
        WHERE o.hash = given.hash AND o.state = 'uploading' AND o.detail <> ''
        RETURNING {CLAIM_COLUMNS}
        """.encode(),
        [[one.hash for one in given], *owner_columns(one.owner for one in given)],
    )
    return [claim_of(row, resumed=True) for row in rows]


def unannounced(transaction: Transaction, topic: str, partitions: Iterable[int]) -> list[bytes]:
    """Contents that were put off, are stored by now, and are not judged yet."""
    rows = transaction.execute(
        "SELECT hash FROM objects WHERE claim_topic = %s AND claim_partition = ANY(%s) "
        "AND state = 'stored' AND detail <> ''",
        [topic, sorted(set(partitions))],
    )
    return [bytes(row[0]) for row in rows]
