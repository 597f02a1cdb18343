"""What the catalog holds of one source at this moment, file by file: for those who compare it with the folder.

These read every row of the source. How far it has come is told by counters: see ``progress``.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.connectors.catalog.client import Transaction


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A path as the next version would take it: the BLAKE3 of its verified bytes, or where the symbolic link points."""

    path: bytes
    hash: bytes | None
    link_target: bytes | None


@dataclass(frozen=True, slots=True)
class ObjectInParts:
    """A large object; ``uploading``: not completed yet, and ``upload_id`` (None: not begun) names its parts in S3."""

    hash: bytes
    generation: int
    parts: int
    uploading: bool
    upload_id: str | None


def verified_files(transaction: Transaction, source: str) -> list[VerifiedFile]:
    """Each path's newest state, deleted paths left out, and those whose bytes are not verified."""
    rows = transaction.execute(
        """
        SELECT p.path, v.hash, v.link_target
        FROM paths p JOIN file_versions v USING (source, path, epoch, seq)
        LEFT JOIN objects o ON o.hash = v.hash AND o.state = 'verified'
        WHERE p.source = %s AND v.kind <> 'deleted' AND (v.hash IS NULL OR o.hash IS NOT NULL)
        """,
        [source],
    )
    return [
        VerifiedFile(
            bytes(path),
            bytes(content) if content is not None else None,
            bytes(target) if target is not None else None,
        )
        for path, content, target in rows
    ]


def complete(transaction: Transaction, source: str) -> bool:
    """Are all recorded changes of the source's epoch below its ``complete_to``, so that a version takes them?"""
    row = transaction.execute(
        """
        SELECT count(c.partition) = s.partitions AND coalesce(min(c.seq), 0) >=
               (SELECT coalesce(max(seq), 0) FROM paths p WHERE p.source = s.source AND p.epoch = s.epoch)
        FROM sources s LEFT JOIN checkpoints c ON c.source = s.source AND c.epoch = s.epoch
        WHERE s.source = %s GROUP BY s.source
        """,
        [source],
    ).fetchone()
    return bool(row and row[0])


def objects_in_parts(transaction: Transaction, source: str) -> list[ObjectInParts]:
    """The large objects that this source's files brought, those on their way included."""
    rows = transaction.execute(
        """
        SELECT hash, generation, parts, state = 'uploading', upload_id FROM objects
        WHERE source = %s AND parts > 0 AND state IN ('uploading', 'stored', 'verified')
        """,
        [source],
    )
    return [ObjectInParts(bytes(content), *rest) for content, *rest in rows]
