"""Who owns a source, how far its changes are recorded, and which of its content is safe.

A source has one owner: the agent with the index that holds its epoch. Every statement on behalf of an owner happens
``WHERE`` epoch and index are still the ones it was given; otherwise it raises Fenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from headwater.connectors.catalog.client import Transaction
from headwater.rules.errors import Fenced, Refused
from headwater.schemas.records import FileType

OWNER_SILENT_SECONDS = 30.0
"""Without a heartbeat for this long (and without a goodbye at once), another index may take the source over."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """A source as its owner holds it. ``taken_over`` names the agent that had it before under another index."""

    source: str
    epoch: int
    index_id: UUID
    taken_over: str | None = None


def own(
    transaction: Transaction,
    *,
    source: str,
    site: str,
    root: bytes,
    dataset: str,
    index_id: UUID,
    index_seq: int,
    agent: str,
    partitions: int,
    take_over: bool = False,
) -> Ownership:
    """Own the source: under its old epoch for the same index, under the next one for another.

    ``take_over``: also from an agent that lives. It is fenced: it ends at its next heartbeat, and upload drops what it
    sent under its epoch and sends from now on.

    An index whose counter is behind what its own checkpoints said (it was restored from a backup) counts as another
    one: it would give out clocks a second time.

    Raises Refused while the agent of another index lives: its heartbeat is young and it has not said goodbye.
    """
    transaction.execute("SELECT pg_advisory_xact_lock(hashtext('headwater source ' || %s))", [source])
    row = transaction.execute(
        "SELECT epoch, index_id, agent, site, "
        "stopped_at IS NULL AND heartbeat_at > now() - make_interval(secs => %s) AS lives, "
        "coalesce((SELECT max(seq) FROM checkpoints c WHERE c.source = s.source AND c.epoch = s.epoch), 0) "
        "FROM sources s WHERE source = %s FOR UPDATE",
        [OWNER_SILENT_SECONDS, source],
    ).fetchone()
    epoch, taken_over = 1, None
    if row:
        held_epoch, held_index, held_agent, held_site, lives, said_seq = row
        if held_site != site:
            raise Refused(
                f"it belongs to site {held_site!r}; its changes of site {site!r} would go to other topics.",
                asked=f"To own source {source!r}:",
                kept="Nothing was changed.",
                advice="Choose another source name, or set site to the one that it belongs to.",
            )
        if held_index != index_id and lives and not take_over:
            raise Refused(
                f"agent {held_agent} owns it with another index and is alive.",
                asked=f"To own source {source!r}:",
                kept="Nothing was changed.",
                advice=f"Stop that agent, or choose another source name. A dead agent's source is free after "
                f"{OWNER_SILENT_SECONDS:.0f} s; one that lives and cannot be stopped is fenced by --take-over.",
                agent=held_agent,
            )
        same = held_index == index_id and index_seq >= said_seq
        epoch = held_epoch if same else held_epoch + 1
        taken_over = None if same else held_agent
    transaction.execute(
        "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (source) DO UPDATE SET root = excluded.root, dataset = excluded.dataset, epoch = excluded.epoch, "
        "index_id = excluded.index_id, agent = excluded.agent, partitions = excluded.partitions, "
        "heartbeat_at = now(), stopped_at = NULL",
        [source, site, root, dataset, epoch, index_id, agent, partitions],
    )
    return Ownership(source, epoch, index_id, taken_over)


def heartbeat(transaction: Transaction, ownership: Ownership) -> None:
    """Say that the owner lives. Raises Fenced where another index owns the source now."""
    _as_owner(transaction, ownership, "heartbeat_at = now()")


def goodbye(transaction: Transaction, ownership: Ownership) -> None:
    """Say that the owner stopped: another index may take the source over at once."""
    _as_owner(transaction, ownership, "heartbeat_at = now(), stopped_at = now()")


def _as_owner(transaction: Transaction, ownership: Ownership, change: str) -> None:
    done = transaction.execute(
        f"UPDATE sources SET {change} WHERE source = %s AND epoch = %s AND index_id = %s".encode(),
        [ownership.source, ownership.epoch, ownership.index_id],
    )
    if not done.rowcount:
        raise Fenced(
            f"another agent owns source {ownership.source!r} now, under a newer epoch than {ownership.epoch}.",
            kept="What this agent sent before is kept; upload drops what it sends from now on.",
            advice="Leave the source to the newer agent, or stop that one and start this one again.",
        )


def silent_seconds(transaction: Transaction, dataset: str) -> dict[str, float]:
    """For each source that feeds the dataset: seconds since its agent's last heartbeat, 0 after a goodbye."""
    rows = transaction.execute(
        "SELECT source, CASE WHEN stopped_at IS NULL THEN extract(epoch FROM now() - heartbeat_at) ELSE 0 END "
        "FROM sources WHERE dataset = %s",
        [dataset],
    )
    return {source: float(seconds) for source, seconds in rows}


def complete_to(transaction: Transaction, ownership: Ownership) -> int:
    """The seq up to which every change under this epoch is recorded in the catalog; 0 where none is known to be."""
    row = transaction.execute(
        "SELECT CASE WHEN count(c.partition) = s.partitions THEN min(c.seq) ELSE 0 END "
        "FROM sources s LEFT JOIN checkpoints c ON c.source = s.source AND c.epoch = s.epoch "
        "WHERE s.source = %s AND s.epoch = %s GROUP BY s.partitions",
        [ownership.source, ownership.epoch],
    ).fetchone()
    return int(row[0]) if row else 0


def object_states(transaction: Transaction, hashes: Sequence[bytes]) -> dict[bytes, str]:
    """State of the wanted generation of each hash (uploading, stored or verified); a hash without one is left out."""
    rows = transaction.execute(
        "SELECT hash, state FROM objects WHERE hash = ANY(%s) AND state IN ('uploading', 'stored', 'verified')",
        [list(hashes)],
    )
    return {bytes(content): state for content, state in rows}


def excepted_among(transaction: Transaction, source: str, paths: Sequence[bytes]) -> set[bytes]:
    """Those of the paths that the catalog names as exceptions (for example dead-lettered ones)."""
    rows = transaction.execute(
        "SELECT path FROM exceptions WHERE source = %s AND active AND path = ANY(%s)", [source, list(paths)]
    )
    return {bytes(path) for (path,) in rows}


@dataclass(frozen=True, slots=True)
class KnownPath:
    """What the catalog holds as the newest state of a path, from an earlier owner of the source."""

    path: bytes
    file_type: FileType
    hash: bytes | None
    size: int
    parts: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int
    link_target: bytes | None
    strong: bool


def known_paths(transaction: Transaction, source: str, after: bytes, limit: int) -> list[KnownPath]:
    """One page of the paths that the source has, in order of path, beginning behind ``after``."""
    rows = transaction.execute(
        "SELECT p.path, v.file_type, v.hash, v.size, coalesce(o.parts, 0), v.mtime_ns, v.mode, v.uid, v.gid, "
        "v.link_target, v.guarantee = 'strong' "
        "FROM paths p JOIN file_versions v USING (source, path, epoch, seq) "
        "LEFT JOIN objects o ON o.hash = v.hash AND o.state IN ('uploading', 'stored', 'verified') "
        "WHERE p.source = %s AND p.path > %s AND v.kind <> 'deleted' ORDER BY p.path LIMIT %s",
        [source, after, limit],
    )
    return [
        KnownPath(
            path=bytes(path),
            file_type=FileType(file_type),
            hash=_bytes(content),
            size=size,
            parts=parts,
            mtime_ns=mtime_ns,
            mode=mode,
            uid=uid,
            gid=gid,
            link_target=_bytes(link_target),
            strong=strong,
        )
        for path, file_type, content, size, parts, mtime_ns, mode, uid, gid, link_target, strong in rows
    ]


def _bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)
