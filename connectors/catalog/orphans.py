"""Multipart uploads that S3 holds and no claim continues, as the catalog tells them from those that go on.

A claim continues the upload whose id is in its row; one without an id yet takes up any of its key. No other state of a
generation ever returns to uploading, so what is an orphan for the holder of the partition stays one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from headwater.connectors.catalog.client import Transaction


class Upload(NamedTuple):
    """A multipart upload of one generation of a content."""

    hash: bytes
    generation: int
    upload_id: str


def homes(transaction: Transaction, topic: str, uploads: Sequence[Upload]) -> dict[Upload, int]:
    """The partition of this topic that each upload belongs to: its row's; without a row (a catalog that was restored
    from before it) 0. Those that belong to another topic are left out."""
    rows = transaction.execute(
        """
        SELECT given.hash, given.generation, given.upload_id, coalesce(o.claim_partition, 0)
        FROM unnest(%s::bytea[], %s::int[], %s::text[]) AS given (hash, generation, upload_id)
        LEFT JOIN objects o USING (hash, generation)
        WHERE coalesce(o.claim_topic, %s) = %s
        """,
        [*_columns(uploads), topic, topic],
    )
    return {Upload(*row[:3]): row[3] for row in rows}


def unclaimed(transaction: Transaction, uploads: Sequence[Upload]) -> list[Upload]:
    """Those that no claim continues or may take up. Call ``objects.hold_partitions`` of their partitions first."""
    rows = transaction.execute(
        """
        SELECT given.hash, given.generation, given.upload_id
        FROM unnest(%s::bytea[], %s::int[], %s::text[]) AS given (hash, generation, upload_id)
        LEFT JOIN objects o USING (hash, generation)
        WHERE o.state IS DISTINCT FROM 'uploading' OR o.upload_id <> given.upload_id
        ORDER BY given.hash, given.generation, given.upload_id
        """,
        _columns(uploads),
    )
    return [Upload(*row) for row in rows]


def forgotten(transaction: Transaction, hashes: Collection[bytes], untouched_seconds: float) -> list[bytes]:
    """Contents whose claim was not touched for so long and is not put off, while no path has them any more."""
    rows = transaction.execute(
        """
        SELECT o.hash FROM objects o
        WHERE o.hash = ANY(%s) AND o.state = 'uploading' AND o.detail = ''
            AND o.changed_at < now() - make_interval(secs => %s)
            AND NOT EXISTS (SELECT FROM file_versions v JOIN paths USING (source, path, epoch, seq)
                            WHERE v.hash = o.hash)
        ORDER BY o.hash
        """,
        [sorted(hashes), untouched_seconds],
    )
    return [bytes(row[0]) for row in rows]


def _columns(uploads: Iterable[Upload]) -> list[list[object]]:
    listed = list(uploads)
    return [[one.hash for one in listed], [one.generation for one in listed], [one.upload_id for one in listed]]
