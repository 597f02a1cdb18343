"""Dataset versions: who commits, which versions there are, what each changes. Written by the committer only.

A dataset has one committer at a time: the holder of ``datasets.committer_epoch``. Every write names that epoch and
raises Fenced when a newer one was issued. What a version takes is frozen in ``freeze.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from psycopg.rows import class_row, dict_row

from headwater.connectors.catalog.client import Transaction
from headwater.rules.errors import BadSettings, Fenced
from headwater.schemas.manifest import ManifestRow, row_of

_CURSOR_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset as its newest published version leaves it. ``head`` 0, ``head_commit`` None: nothing published yet."""

    dataset: str
    repository: str
    committer_epoch: int
    head: int
    head_commit: str | None
    files: int
    content_bytes: int
    uncommitted: int
    """Changes recorded since the last intent."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version, from its intent on; the hashes and ``commit_id`` are None until their step is done."""

    dataset: str
    version: int
    parent: int | None
    epoch: int
    state: str
    cut: dict[str, Any]
    """Per source: ``epoch``, ``complete_to`` (a seq; None: nothing is complete yet), ``exception_count`` and the first
    ``exceptions`` below it, each with ``path`` (hex), ``display`` and ``reason``."""
    message: str
    manifest_hash: bytes | None
    base_hash: bytes | None
    commit_id: str | None
    added: int
    changed: int
    removed: int
    files: int
    content_bytes: int
    exceptions: int
    created_at: datetime
    published_at: datetime | None
    announced_at: datetime | None


def take_over(transaction: Transaction, dataset: str, repository: str) -> DatasetRow:
    """Become the dataset's committer: the next epoch, also for an intent that was left unpublished.

    The first committer makes the dataset, and counts what was recorded before there was one.
    Raises BadSettings when the dataset lives in another lakeFS repository.
    """
    transaction.execute(
        """
        INSERT INTO datasets (dataset, repository, committer_epoch, uncommitted)
        VALUES (%s, %s, 1, (
            SELECT count(*) FROM paths p JOIN sources s USING (source)
            WHERE s.dataset = %s AND (p.epoch, p.seq) > (p.committed_epoch, p.committed_seq)
        ))
        ON CONFLICT (dataset) DO UPDATE SET committer_epoch = datasets.committer_epoch + 1
        """,
        [dataset, repository, dataset],
    )
    taken = find(transaction, dataset)
    assert taken is not None
    if taken.repository != repository:
        raise BadSettings(
            f"the dataset {dataset} lives in the lakeFS repository {taken.repository}, not in {repository}",
            kept="Nothing was changed.",
            advice=f"Set commit.repository to {taken.repository}, or choose another dataset name.",
        )
    transaction.execute(
        "UPDATE versions SET epoch = %s WHERE dataset = %s AND state = 'intent'", [taken.committer_epoch, dataset]
    )
    return taken


def find(transaction: Transaction, dataset: str) -> DatasetRow | None:
    with transaction.cursor(row_factory=class_row(DatasetRow)) as cursor:
        return cursor.execute(
            "SELECT dataset, repository, committer_epoch, head, head_commit, files, content_bytes, uncommitted "
            "FROM datasets WHERE dataset = %s",
            [dataset],
        ).fetchone()


_VERSION = (
    "SELECT dataset, version, parent, epoch, state, cut, message, manifest_hash, base_hash, commit_id, added, changed, "
    "removed, files, content_bytes, exceptions, created_at, published_at, announced_at FROM versions "
)


def open_intent(transaction: Transaction, dataset: str) -> Version | None:
    """The version whose intent is written and that is not published yet: at most one."""
    with transaction.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(_VERSION + "WHERE dataset = %s AND state = 'intent'", [dataset]).fetchone()


def newest(transaction: Transaction, dataset: str) -> Version | None:
    """The newest published version."""
    with transaction.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(
            _VERSION + "WHERE dataset = %s AND state = 'published' ORDER BY version DESC LIMIT 1", [dataset]
        ).fetchone()


def by_number(transaction: Transaction, dataset: str, version: int) -> Version | None:
    with transaction.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(
            _VERSION + "WHERE dataset = %s AND state = 'published' AND version = %s", [dataset, version]
        ).fetchone()


def by_commit(transaction: Transaction, dataset: str, commit_prefix: str) -> list[Version]:
    """The published versions whose lakeFS commit id starts so, at most two."""
    with transaction.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(
            _VERSION + "WHERE dataset = %s AND state = 'published' AND starts_with(commit_id, %s) LIMIT 2",
            [dataset, commit_prefix],
        ).fetchall()


def published(transaction: Transaction, dataset: str, limit: int) -> list[Version]:
    """The newest published versions, newest first."""
    with transaction.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(
            _VERSION + "WHERE dataset = %s AND state = 'published' ORDER BY version DESC LIMIT %s", [dataset, limit]
        ).fetchall()


def manifests_of(transaction: Transaction, dataset: str, version: int) -> list[bytes]:
    """Hashes of the manifests that make the version, in the order in which they apply: a base, then deltas."""
    rows = transaction.execute(
        "SELECT coalesce(base_hash, manifest_hash) FROM versions WHERE dataset = %s AND version <= %s AND version >= "
        "(SELECT max(version) FROM versions WHERE dataset = %s AND version <= %s AND base_hash IS NOT NULL) "
        "ORDER BY version",
        [dataset, version, dataset, version],
    )
    return [row[0] for row in rows]


def rows_since_base(transaction: Transaction, dataset: str) -> tuple[int, int]:
    """(files in the newest published version that has a full manifest, rows of all deltas after it, an intent's too).

    (0, …) where none has.
    """
    row = transaction.execute(
        "WITH base AS (SELECT version, files FROM versions WHERE dataset = %s AND base_hash IS NOT NULL "
        "AND state = 'published' ORDER BY version DESC LIMIT 1) "
        "SELECT coalesce((SELECT files FROM base), 0), coalesce(sum(added + changed + removed), 0)::bigint "
        "FROM versions WHERE dataset = %s AND version > coalesce((SELECT version FROM base), 0)",
        [dataset, dataset],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def changes(transaction: Transaction, dataset: str, version: int) -> Iterator[ManifestRow]:
    """The frozen delta of a version, streamed: read it while the transaction is open."""
    with transaction.cursor(name=f"changes_{uuid4().hex}", row_factory=dict_row) as cursor:
        cursor.itersize = _CURSOR_ROWS
        cursor.execute(
            "SELECT source, path, change, file_type, hash, generation, size, mtime_ns, mode, uid, gid, link_target, "
            "epoch, seq, guarantee FROM version_changes WHERE dataset = %s AND version = %s",
            [dataset, version],
        )
        yield from map(row_of, cursor)


def changed_bytes(transaction: Transaction, version: Version) -> int:
    """Bytes of the files that the version adds or changes."""
    row = transaction.execute(
        "SELECT coalesce(sum(size), 0)::bigint FROM version_changes WHERE dataset = %s AND version = %s "
        "AND change <> 'removed'",
        [version.dataset, version.version],
    ).fetchone()
    return int(row[0]) if row else 0


def record_manifest(transaction: Transaction, version: Version) -> None:
    """Keep the hashes of the version's manifests."""
    done = transaction.execute(
        "UPDATE versions SET manifest_hash = %s, base_hash = %s WHERE dataset = %s AND version = %s AND epoch = %s "
        "AND state = 'intent'",
        [version.manifest_hash, version.base_hash, version.dataset, version.version, version.epoch],
    )
    if not done.rowcount:
        raise fenced(version.dataset, version.epoch)


def publish(transaction: Transaction, version: Version, commit_id: str) -> None:
    """The commit point: the version is published as this lakeFS commit, is the head, and answers its requests.

    Publishing again what is published already does nothing. Raises Fenced when a newer committer was seen.
    """
    there = by_number(transaction, version.dataset, version.version)
    if there is not None and (there.epoch, there.commit_id) == (version.epoch, commit_id):
        return
    # In the order of their keys and before the datasets row: uploaders lock in the same order.
    transaction.execute(
        """
        WITH taken AS (
            SELECT source, path, c.epoch, c.seq FROM version_changes c JOIN paths p USING (source, path)
            WHERE c.dataset = %s AND c.version = %s ORDER BY source, path FOR UPDATE OF p
        )
        UPDATE paths p SET committed_epoch = taken.epoch, committed_seq = taken.seq FROM taken
        WHERE p.source = taken.source AND p.path = taken.path
            AND (taken.epoch, taken.seq) > (p.committed_epoch, p.committed_seq)
        """,
        [version.dataset, version.version],
    )
    transaction.execute(
        "UPDATE commit_requests SET done_at = now() WHERE dataset = %s AND version = %s AND done_at IS NULL",
        [version.dataset, version.version],
    )
    is_published = transaction.execute(
        "UPDATE versions SET state = 'published', commit_id = %s, published_at = now() "
        "WHERE dataset = %s AND version = %s AND epoch = %s AND state = 'intent'",
        [commit_id, version.dataset, version.version, version.epoch],
    )
    is_head = transaction.execute(
        "UPDATE datasets SET head = %s, head_commit = %s, files = %s, content_bytes = %s "
        "WHERE dataset = %s AND committer_epoch = %s AND head = %s",
        [
            version.version,
            commit_id,
            version.files,
            version.content_bytes,
            version.dataset,
            version.epoch,
            version.version - 1,
        ],
    )
    if not (is_published.rowcount and is_head.rowcount):
        raise fenced(version.dataset, version.epoch)


def mark_announced(transaction: Transaction, dataset: str, version: int) -> None:
    """The version's record is on dataset.versions."""
    transaction.execute(
        "UPDATE versions SET announced_at = now() WHERE dataset = %s AND version = %s AND announced_at IS NULL",
        [dataset, version],
    )


def request_commit(transaction: Transaction, dataset: str, message: str) -> int:
    """Ask the dataset's committer for a version; returns the request's id."""
    row = transaction.execute(
        "INSERT INTO commit_requests (dataset, message) VALUES (%s, %s) RETURNING id", [dataset, message]
    ).fetchone()
    assert row is not None
    return int(row[0])


def answer(transaction: Transaction, request: int) -> tuple[bool, int | None]:
    """(answered?, the version that answers it; None: nothing had changed)."""
    row = transaction.execute(
        "SELECT done_at IS NOT NULL, version FROM commit_requests WHERE id = %s", [request]
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def has_requests(transaction: Transaction, dataset: str) -> bool:
    row = transaction.execute(
        "SELECT EXISTS (SELECT FROM commit_requests WHERE dataset = %s AND done_at IS NULL)", [dataset]
    ).fetchone()
    return bool(row and row[0])


def fenced(dataset: str, epoch: int) -> Fenced:
    return Fenced(
        f"another committer of the dataset {dataset} was started after this one (epoch {epoch})",
        kept="Published versions are kept; the newer committer finishes what this one began.",
        advice="Run one committer for each dataset; this one has stopped.",
        epoch=epoch,
    )
