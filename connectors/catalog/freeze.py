"""Step 1 of a version: decide what it takes and freeze that, in one transaction.

Which order makes it consistent without holding anybody up: the checkpoints are read first, then the agents'
exceptions, then, in one statement, every state that is not committed. A checkpoint says that everything below it is
recorded, so the later statements see all of that; what they see beyond only makes the version newer. The epoch is
checked by the last statement, which fails the whole transaction if another committer was started meanwhile.
"""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from headwater.connectors.catalog import versions
from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.versions import Version
from headwater.rules.cut import Place, Reason, State, newest_consistent
from headwater.rules.identity import Clock, display

EXCEPTIONS_NAMED = 1_000
"""A cut names this many exceptions of a source and counts the rest: the catalog has them all."""


def freeze(transaction: Transaction, dataset: str, epoch: int) -> Version | None:
    """Write the intent and the frozen delta of the next version; None when nothing changed.

    Open commit requests are answered by this version when it is published, or now if nothing changed. Raises Fenced
    when another committer was started.
    """
    head = versions.find(transaction, dataset)
    if head is None or head.committer_epoch != epoch:
        raise versions.fenced(dataset, epoch)
    requests = _open_requests(transaction, dataset)
    _read_cut(transaction, dataset)
    _read_pending(transaction, dataset)
    _take_newest(transaction)
    _hold_back_renames(transaction)
    _compare_with_parent(transaction, dataset)
    _advance_what_is_unchanged(transaction)
    counts = _count(transaction)
    found: Version | None = None
    if sum(counts[:3]):
        _write_version(transaction, head, [message for _, message in requests], counts)
        found = versions.open_intent(transaction, dataset)
    _answer(transaction, [number for number, _ in requests], found)
    checked = transaction.execute(
        "UPDATE datasets SET uncommitted = 0 WHERE dataset = %s AND committer_epoch = %s", [dataset, epoch]
    )
    if not checked.rowcount:
        raise versions.fenced(dataset, epoch)
    return found


def _open_requests(transaction: Transaction, dataset: str) -> list[tuple[int, str]]:
    return transaction.execute(
        "SELECT id, message FROM commit_requests WHERE dataset = %s AND done_at IS NULL ORDER BY id", [dataset]
    ).fetchall()


def _answer(transaction: Transaction, requests: list[int], found: Version | None) -> None:
    """Tie the requests to the version, whose publication answers them; without one, answer them: nothing changed."""
    transaction.execute(
        "UPDATE commit_requests SET version = %s, done_at = CASE WHEN %s::bigint IS NULL THEN now() END "
        "WHERE id = ANY(%s)",
        [found.version if found else None, found.version if found else None, requests],
    )


def _read_cut(transaction: Transaction, dataset: str) -> None:
    """cut: per source the seq up to which everything is recorded (null: nothing yet). excepted: the agents' word."""
    transaction.execute(
        """
        CREATE TEMP TABLE cut ON COMMIT DROP AS
        SELECT s.source, s.epoch,
            CASE WHEN count(c.partition) = s.partitions THEN min(c.seq) END AS complete_to
        FROM sources s
        LEFT JOIN checkpoints c ON c.source = s.source AND c.epoch = s.epoch AND c.partition < s.partitions
        WHERE s.dataset = %s GROUP BY s.source, s.epoch, s.partitions
        """,
        [dataset],
    )
    transaction.execute(
        """
        CREATE TEMP TABLE excepted ON COMMIT DROP AS
        SELECT e.source, e.path, e.epoch, e.seq, e.reason FROM exceptions e JOIN cut USING (source) WHERE e.active
        """
    )


def _read_pending(transaction: Transaction, dataset: str) -> None:
    """pending: every recorded state above its path's committed clock, and whether it is verified."""
    transaction.execute(
        """
        CREATE TEMP TABLE pending ON COMMIT DROP AS
        SELECT v.source, v.path, v.epoch, v.seq, v.kind, v.file_type, v.hash, o.generation, v.size, v.mtime_ns, v.mode,
            v.uid, v.gid, v.link_target, v.guarantee, coalesce(v.from_path, v.renamed_to) AS other_half,
            v.hash IS NULL OR o.hash IS NOT NULL AS verified, p.committed_epoch > 0 AS is_committed
        FROM sources s
        JOIN paths p ON p.source = s.source AND (p.epoch, p.seq) > (p.committed_epoch, p.committed_seq)
        JOIN file_versions v ON v.source = p.source AND v.path = p.path
            AND (v.epoch, v.seq) > (p.committed_epoch, p.committed_seq)
        LEFT JOIN objects o ON o.hash = v.hash AND o.state = 'verified'
        WHERE s.dataset = %s
        """,
        [dataset],
    )
    transaction.execute("CREATE INDEX ON pending (source, path, epoch, seq)")
    transaction.execute("ANALYZE pending")


def _take_newest(transaction: Transaction) -> None:
    """taken: of each path the newest verified state."""
    transaction.execute(
        """
        CREATE TEMP TABLE taken ON COMMIT DROP AS
        SELECT DISTINCT ON (source, path) source, path, epoch, seq FROM pending
        WHERE verified ORDER BY source, path, epoch DESC, seq DESC
        """
    )


def _hold_back_renames(transaction: Transaction) -> None:
    """Lower in taken the paths of renames of which one half would go alone. Only paths of renames are read."""
    pending: dict[Place, list[State]] = {}
    for source, path, epoch, seq, verified, other in transaction.execute(
        """
        SELECT source, path, epoch, seq, verified, other_half FROM pending
        WHERE (source, path) IN (SELECT source, path FROM pending WHERE other_half IS NOT NULL)
        ORDER BY source, path, epoch, seq
        """
    ):
        state = State(Clock(epoch, seq), verified, (source, other) if other is not None else None)
        pending.setdefault((source, path), []).append(state)
    if all(state.verified for states in pending.values() for state in states):
        return
    chosen = newest_consistent(pending)
    places = list(pending)
    transaction.execute(
        "DELETE FROM taken t USING unnest(%s::text[], %s::bytea[]) AS linked (source, path) "
        "WHERE t.source = linked.source AND t.path = linked.path",
        [[source for source, _ in places], [path for _, path in places]],
    )
    transaction.execute(
        "INSERT INTO taken SELECT * FROM unnest(%s::text[], %s::bytea[], %s::bigint[], %s::bigint[])",
        [
            [source for source, _ in chosen],
            [path for _, path in chosen],
            [clock.epoch for clock in chosen.values()],
            [clock.seq for clock in chosen.values()],
        ],
    )


def _compare_with_parent(transaction: Transaction, dataset: str) -> None:
    """delta: what each taken state changes from what the parent holds of its path (null: nothing).

    A removed path keeps the description of what went.
    """
    transaction.execute(
        """
        CREATE TEMP TABLE delta ON COMMIT DROP AS
        SELECT n.source, n.path, n.epoch, n.seq,
            CASE
                WHEN n.kind = 'deleted' THEN CASE WHEN h.path IS NOT NULL THEN 'removed' END
                WHEN h.path IS NULL THEN 'added'
                WHEN (n.file_type, n.hash, n.generation, n.size, n.mtime_ns, n.mode, n.uid, n.gid, n.link_target,
                      n.guarantee) IS DISTINCT FROM
                     (h.file_type, h.hash, h.generation, h.size, h.mtime_ns, h.mode, h.uid, h.gid, h.link_target,
                      h.guarantee) THEN 'changed'
            END AS change,
            CASE WHEN h.hash IS NULL THEN 0 ELSE h.size END AS bytes_before,
            CASE WHEN n.kind = 'deleted' THEN h.file_type ELSE n.file_type END AS file_type,
            CASE WHEN n.kind = 'deleted' THEN h.hash ELSE n.hash END AS hash,
            CASE WHEN n.kind = 'deleted' THEN h.generation ELSE n.generation END AS generation,
            CASE WHEN n.kind = 'deleted' THEN h.size ELSE n.size END AS size,
            CASE WHEN n.kind = 'deleted' THEN h.mtime_ns ELSE n.mtime_ns END AS mtime_ns,
            CASE WHEN n.kind = 'deleted' THEN h.mode ELSE n.mode END AS mode,
            CASE WHEN n.kind = 'deleted' THEN h.uid ELSE n.uid END AS uid,
            CASE WHEN n.kind = 'deleted' THEN h.gid ELSE n.gid END AS gid,
            CASE WHEN n.kind = 'deleted' THEN h.link_target ELSE n.link_target END AS link_target,
            CASE WHEN n.kind = 'deleted' THEN h.guarantee ELSE n.guarantee END AS guarantee
        FROM taken t JOIN pending n USING (source, path, epoch, seq)
        LEFT JOIN LATERAL (
            SELECT * FROM (
                SELECT * FROM version_changes c
                WHERE n.is_committed AND c.dataset = %s AND c.source = n.source AND c.path = n.path
                ORDER BY c.version DESC LIMIT 1
            ) newest WHERE newest.change <> 'removed'
        ) h ON true
        """,
        [dataset],
    )


def _advance_what_is_unchanged(transaction: Transaction) -> None:
    """The head holds these states already (sent again, or gone before they ever came): their clocks are committed."""
    transaction.execute(
        """
        WITH same AS (
            SELECT source, path, d.epoch, d.seq FROM delta d JOIN paths p USING (source, path)
            WHERE d.change IS NULL ORDER BY source, path FOR UPDATE OF p
        )
        UPDATE paths p SET committed_epoch = same.epoch, committed_seq = same.seq FROM same
        WHERE p.source = same.source AND p.path = same.path
        """
    )


def _count(transaction: Transaction) -> tuple[int, int, int, int]:
    """(added, changed, removed, bytes gained)"""
    row = transaction.execute(
        """
        SELECT count(*) FILTER (WHERE change = 'added'), count(*) FILTER (WHERE change = 'changed'),
            count(*) FILTER (WHERE change = 'removed'),
            coalesce(sum(CASE WHEN change = 'removed' OR hash IS NULL THEN 0 ELSE size END - bytes_before)
                     FILTER (WHERE change IS NOT NULL), 0)::bigint
        FROM delta
        """
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


def _write_version(
    transaction: Transaction, head: versions.DatasetRow, messages: list[str], counts: tuple[int, int, int, int]
) -> None:
    added, changed, removed, bytes_gained = counts
    number = head.head + 1
    cut = _cut(transaction)
    transaction.execute(
        "INSERT INTO versions (dataset, version, parent, epoch, state, cut, message, added, changed, removed, files, "
        "content_bytes, exceptions) VALUES (%s, %s, %s, %s, 'intent', %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            head.dataset,
            number,
            head.head or None,
            head.committer_epoch,
            Jsonb(cut),
            "\n".join(dict.fromkeys(message for message in messages if message)),
            added,
            changed,
            removed,
            head.files + added - removed,
            head.content_bytes + bytes_gained,
            sum(source["exception_count"] for source in cut.values()),
        ],
    )
    transaction.execute(
        "INSERT INTO version_changes (dataset, version, source, path, epoch, seq, change, file_type, hash, generation, "
        "size, mtime_ns, mode, uid, gid, link_target, guarantee) "
        "SELECT %s, %s, source, path, epoch, seq, change, file_type, hash, generation, size, mtime_ns, mode, uid, gid, "
        "link_target, guarantee FROM delta WHERE change IS NOT NULL",
        [head.dataset, number],
    )


def _cut(transaction: Transaction) -> dict[str, Any]:
    """The cut with its exceptions: paths whose newest state below it is not what the version holds, and why."""
    cut: dict[str, Any] = {
        source: {"epoch": epoch, "complete_to": complete_to, "exception_count": 0, "exceptions": []}
        for source, epoch, complete_to in transaction.execute("SELECT source, epoch, complete_to FROM cut")
    }
    rows = transaction.execute(
        """
        WITH states AS (
            SELECT source, path, epoch, seq, CASE WHEN verified THEN %(rename)s ELSE %(verification)s END AS reason,
                2 AS rank FROM pending
            UNION ALL SELECT source, path, epoch, seq, reason, 1 FROM excepted
        ), promised AS (
            SELECT DISTINCT ON (s.source, s.path, s.rank) s.*
            FROM states s JOIN cut USING (source)
            WHERE cut.complete_to IS NOT NULL AND (s.epoch, s.seq) <= (cut.epoch, cut.complete_to)
            ORDER BY s.source, s.path, s.rank, s.epoch DESC, s.seq DESC
        ), named AS (
            SELECT DISTINCT ON (h.source, h.path) h.source, h.path, h.reason
            FROM promised h
            LEFT JOIN taken t ON t.source = h.source AND t.path = h.path
            LEFT JOIN paths p ON p.source = h.source AND p.path = h.path
            WHERE (t.path IS NULL OR (h.epoch, h.seq) > (t.epoch, t.seq))
                AND (p.path IS NULL OR (h.epoch, h.seq) > (p.committed_epoch, p.committed_seq))
            ORDER BY h.source, h.path, h.rank
        )
        SELECT source, path, reason, total FROM (
            SELECT *, count(*) OVER of_source AS total, row_number() OVER (PARTITION BY source ORDER BY path) AS place
            FROM named WINDOW of_source AS (PARTITION BY source)
        ) numbered WHERE place <= %(limit)s ORDER BY source, path
        """,
        {"rename": Reason.rename.value, "verification": Reason.verification.value, "limit": EXCEPTIONS_NAMED},
    )
    for source, path, reason, total in rows:
        cut[source]["exception_count"] = total
        cut[source]["exceptions"].append({"path": path.hex(), "display": display(path), "reason": reason})
    return cut
