"""Casts: their epochs, and which of them count. The log tells peers what happened; here is decided what may.

    announced ─► sealed
        └──────────┴──► aborted ─► removed

A cast is announced under the next epoch of one sequence for all names, and with that each unfinished older one of its
name is aborted: of two publishers of a name the newer one wins, whatever their clocks say. Each state is told on the
log after it is written here; until the log has acknowledged it, it is *untold*, and the next publisher on that host, or
of that name, tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg.rows import class_row

from headwater.connectors.catalog.client import Transaction
from headwater.rules.errors import Fenced, NotFound
from headwater.schemas.cast_manifest import ManifestState


@dataclass(frozen=True, slots=True)
class Cast:
    """One row. ``file`` is the path at ``origin``; ``newest``: no later cast of its name is known; ``expired`` by the
    database's clock."""

    epoch: int
    name: str
    state: ManifestState
    told: bool
    reason: str
    origin: str
    file: bytes
    file_name: str
    size: int
    chunk_bytes: int
    targets: list[str]
    root: bytes | None
    copy_key: str | None
    announced_at: datetime
    changed_at: datetime
    expires_at: datetime
    newest: bool
    expired: bool

    @property
    def lives(self) -> bool:
        """Peers may still ask for it and serve it."""
        return self.state in (ManifestState.announced, ManifestState.sealed) and self.newest and not self.expired


_COLUMNS = """
    SELECT epoch, name, state, told, reason, origin, file, file_name, size, chunk_bytes, targets, root, copy_key,
        announced_at, changed_at, expires_at, expires_at <= now() AS expired,
        NOT EXISTS (SELECT FROM casts newer WHERE newer.name = casts.name AND newer.epoch > casts.epoch) AS newest
    FROM casts
"""


def announce(
    transaction: Transaction,
    *,
    name: str,
    origin: str,
    file: bytes,
    file_name: str,
    size: int,
    chunk_bytes: int,
    targets: Sequence[str],
    expires_at: datetime,
) -> Cast:
    """A new cast under the next epoch; the unfinished older ones of its name are aborted, and untold."""
    transaction.execute("SELECT pg_advisory_xact_lock(hashtext('headwater cast ' || %s))", [name])
    row = transaction.execute(
        "INSERT INTO casts (name, reason, origin, file, file_name, size, chunk_bytes, targets, expires_at) "
        "VALUES (%s, 'its chunks are being hashed', %s, %s, %s, %s, %s, %s, %s) RETURNING epoch",
        [name, origin, file, file_name, size, chunk_bytes, list(targets), expires_at],
    ).fetchone()
    assert row is not None
    transaction.execute(
        "UPDATE casts SET state = 'aborted', told = false, changed_at = now(), "
        "reason = format('it was unfinished when %%s announced cast %%s under the same name', %s::text, %s::bigint) "
        "WHERE name = %s AND epoch < %s AND state = 'announced'",
        [origin, row[0], name, row[0]],
    )
    return by_epoch(transaction, row[0])


def seal(transaction: Transaction, epoch: int, root: bytes) -> None:
    """The whole file is hashed and was found unchanged; said again, it changes nothing.

    Raises Fenced where the cast ended before, with the reason.
    """
    done = transaction.execute(
        "UPDATE casts SET state = 'sealed', told = false, changed_at = now(), root = %s, "
        "reason = 'the source was found unchanged' WHERE epoch = %s AND state = 'announced'",
        [root, epoch],
    )
    if not done.rowcount and ((cast := by_epoch(transaction, epoch)).state, cast.root) != (ManifestState.sealed, root):
        raise ended(cast)


def end(transaction: Transaction, epoch: int, state: ManifestState, reason: str) -> bool:
    """Abort or remove a cast; False where it is that, or more, already."""
    before = ["announced", "sealed"] if state is ManifestState.aborted else ["announced", "sealed", "aborted"]
    done = transaction.execute(
        "UPDATE casts SET state = %s, told = false, changed_at = now(), reason = %s "
        "WHERE epoch = %s AND state = ANY(%s)",
        [state, reason, epoch, before],
    )
    return bool(done.rowcount)


def told(transaction: Transaction, epoch: int, state: ManifestState) -> None:
    """The log acknowledged the record of this state."""
    transaction.execute("UPDATE casts SET told = true WHERE epoch = %s AND state = %s", [epoch, state])


def untold(transaction: Transaction, name: str, origin: str) -> list[Cast]:
    """The casts of this name or origin that ended or were sealed without the log having acknowledged it, by epoch."""
    return _selected(
        transaction,
        "WHERE NOT told AND state <> 'announced' AND (name = %s OR origin = %s) ORDER BY epoch",
        [name, origin],
    )


def keep_copy(transaction: Transaction, epoch: int, key: str | None) -> None:
    """Where its copy will be, written before the first byte is; None once it is gone."""
    transaction.execute("UPDATE casts SET copy_key = %s WHERE epoch = %s", [key, epoch])


def expired(transaction: Transaction) -> list[Cast]:
    """The casts whose time is over and whose removal the log does not have; by epoch."""
    condition = "WHERE expires_at <= now() AND (state <> 'removed' OR NOT told) ORDER BY epoch"
    return _selected(transaction, condition, [])


def spare_copies(transaction: Transaction) -> list[Cast]:
    """The casts that have a copy in S3 and need none any more: they ended, expired, or were replaced."""
    return _selected(
        transaction,
        "WHERE copy_key IS NOT NULL AND (state IN ('aborted', 'removed') OR expires_at <= now() OR EXISTS "
        "(SELECT FROM casts newer WHERE newer.name = casts.name AND newer.epoch > casts.epoch "
        "AND newer.state = 'sealed')) ORDER BY epoch",
        [],
    )


def by_epoch(transaction: Transaction, epoch: int) -> Cast:
    """Raises NotFound."""
    found = _selected(transaction, "WHERE epoch = %s", [epoch])
    if not found:
        raise NotFound(f"the catalog knows no cast {epoch}.", advice="`headwater cast list` shows all.")
    return found[0]


def of_name(transaction: Transaction, name: str) -> list[Cast]:
    """The casts of a name, the newest first. Raises NotFound where there is none."""
    found = _selected(transaction, "WHERE name = %s ORDER BY epoch DESC", [name])
    if not found:
        raise NotFound(f"there is no cast named {name!r}.", advice="`headwater cast list` shows all.")
    return found


def all_casts(transaction: Transaction, limit: int) -> list[Cast]:
    """Of all names, the newest first."""
    return _selected(transaction, "ORDER BY epoch DESC LIMIT %s", [limit])


def ended(cast: Cast) -> Fenced:
    """The error of a publisher whose cast was ended by somebody else."""
    return Fenced(
        f"cast {cast.name} {cast.epoch} is {cast.state}: {cast.reason}.",
        asked=f"To go on with cast {cast.name} {cast.epoch}:",
        kept="Peers install nothing of it. The source is untouched.",
        advice=f"`headwater cast list` shows what became of {cast.name}; publish again if this file shall replace it.",
        epoch=cast.epoch,
        state=cast.state,
    )


def _selected(transaction: Transaction, condition: str, values: list[object]) -> list[Cast]:
    with transaction.cursor(row_factory=class_row(Cast)) as cursor:
        found = cursor.execute((_COLUMNS + condition).encode(), values).fetchall()
    return [replace(cast, state=ManifestState(cast.state)) for cast in found]
