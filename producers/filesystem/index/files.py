"""What the agent last said about each path, and whether the cloud side has its bytes.

The key is (directory, name): the rows of one directory lie together, as a listing needs them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.producers.filesystem.tree import Attributes, Footprint, Signature, footprint, join, name_of, parent_of
from headwater.schemas.records import FileType

_TABLE = """
CREATE TABLE IF NOT EXISTS files (
    directory BLOB NOT NULL, name BLOB NOT NULL, file_type TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL, device INTEGER NOT NULL,
    mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL,
    hash BLOB, parts INTEGER NOT NULL, link_target BLOB, strong INTEGER NOT NULL,
    seq INTEGER NOT NULL, verified INTEGER NOT NULL, sends INTEGER NOT NULL, sent_at REAL NOT NULL,
    missing_since REAL,
    PRIMARY KEY (directory, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_inode ON files (inode);
CREATE INDEX IF NOT EXISTS files_pending ON files (seq) WHERE verified = 0;
CREATE INDEX IF NOT EXISTS files_missing ON files (missing_since) WHERE missing_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_weak ON files (strong) WHERE strong = 0;
"""

_COLUMNS = (
    "directory, name, file_type, size, mtime_ns, ctime_ns, inode, device, mode, uid, gid, hash, parts, link_target, "
    "strong, seq, sends, verified, missing_since"
)


@dataclass(frozen=True, slots=True)
class KnownFile:
    """One path as it was last sent under ``seq`` (0: an earlier owner of the source sent it).

    ``sends`` counts how often this content was sent: each re-send waits longer.
    """

    path: bytes
    file_type: FileType
    signature: Signature
    attributes: Attributes
    hash: bytes | None
    parts: int
    link_target: bytes | None
    strong: bool
    seq: int
    sends: int = 1
    verified: bool = False
    missing_since: float | None = None

    @property
    def footprint(self) -> Footprint:
        return footprint(self.file_type, self.signature, self.attributes)


@dataclass(frozen=True, slots=True)
class Pending:
    """A path that waits for the cloud side. ``sends``: how often this content was sent, ``sent_at``: when last."""

    path: bytes
    hash: bytes | None
    seq: int
    sends: int
    sent_at: float


def _known(row: tuple[Any, ...]) -> KnownFile:
    directory, name, file_type, size, mtime_ns, ctime_ns, inode, device, mode, uid, gid, *rest = row
    content, parts, link_target, strong, seq, sends, verified, missing_since = rest
    return KnownFile(
        path=join(directory, name),
        file_type=FileType(file_type),
        signature=Signature(size, mtime_ns, ctime_ns, inode, device),
        attributes=Attributes(mtime_ns, mode, uid, gid),
        hash=content,
        parts=parts,
        link_target=link_target,
        strong=bool(strong),
        seq=seq,
        sends=sends,
        verified=bool(verified),
        missing_since=missing_since,
    )


def _key(path: bytes) -> tuple[bytes, bytes]:
    return parent_of(path), name_of(path)


class Files:
    def __init__(self, database: sqlite3.Connection, *, read_only: bool = False) -> None:
        self._database = database
        if not read_only:
            database.executescript(_TABLE)
        self.count = int(database.execute("SELECT count(*) FROM files").fetchone()[0])
        pending = "SELECT count(*) FROM files INDEXED BY files_pending WHERE verified = 0"
        self.pending_count = int(database.execute(pending).fetchone()[0])
        self.weak_count = int(database.execute("SELECT count(*) FROM files WHERE strong = 0").fetchone()[0])

    def get(self, path: bytes) -> KnownFile | None:
        found = self._select("directory = ? AND name = ?", _key(path))
        return found[0] if found else None

    def named(self, directory: bytes, names: Sequence[bytes]) -> dict[bytes, KnownFile]:
        """The known files of these names, by path."""
        marks = ", ".join("?" * len(names))
        found = self._select(f"directory = ? AND name IN ({marks})", (directory, *names))
        return {known.path: known for known in found}

    def footprints(self, directory: bytes, names: Sequence[bytes]) -> dict[bytes, Footprint | None]:
        """The footprints of the known files of these names, by name; None where the file is held as missing."""
        marks = ", ".join("?" * len(names))
        rows = self._database.execute(
            "SELECT name, missing_since, file_type, size, mtime_ns, ctime_ns, inode, mode, uid, gid FROM files "
            f"WHERE directory = ? AND name IN ({marks})",
            (directory, *names),
        )
        return {row[0]: row[2:] if row[1] is None else None for row in rows}

    def count_in(self, directory: bytes) -> int:
        query = "SELECT count(*) FROM files WHERE directory = ?"
        return int(self._database.execute(query, (directory,)).fetchone()[0])

    def any_below(self, directory: bytes) -> bool:
        """Is any file known in this directory, or in one below it ('0' follows '/')?"""
        query = "SELECT 1 FROM files WHERE directory = ? OR (directory > ? AND directory < ?) LIMIT 1"
        below = (directory, directory + b"/", directory + b"0")
        return self._database.execute(query, below).fetchone() is not None

    def page_in(self, directory: bytes, after: bytes, limit: int) -> list[KnownFile]:
        """Known files of one directory in order of name, beginning behind the name ``after``."""
        return self._select("directory = ? AND name > ? ORDER BY name LIMIT ?", (directory, after, limit))

    def all(self) -> Iterator[KnownFile]:
        """Every known file, one after the other, without holding them in memory."""
        return (_known(row) for row in self._database.execute(f"SELECT {_COLUMNS} FROM files"))

    def with_inode(self, signature: Signature) -> list[KnownFile]:
        """Paths that were last seen as this inode: other names of one file, or the name it had before."""
        return self._select("inode = ? AND device = ? LIMIT 64", (signature.inode, signature.device))

    def missing(self, since_before: float, limit: int) -> list[KnownFile]:
        return self._select("missing_since <= ? ORDER BY missing_since LIMIT ?", (since_before, limit))

    def pending(self, after_seq: int, to_seq: int, limit: int) -> list[Pending]:
        """Paths that are not known to be verified, sent behind ``after_seq`` and up to ``to_seq``, oldest first."""
        rows = self._database.execute(
            "SELECT directory, name, hash, seq, sends, sent_at FROM files "
            "WHERE verified = 0 AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            (after_seq, to_seq, limit),
        )
        return [Pending(join(directory, name), *rest) for directory, name, *rest in rows]

    def missing_count(self, since_before: float = float("inf")) -> int:
        query = "SELECT count(*) FROM files WHERE missing_since <= ?"
        return int(self._database.execute(query, (since_before,)).fetchone()[0])

    def missing_span(self, since_before: float) -> tuple[bytes, bytes]:
        """The first and the last directory, in byte order, of the paths that are missing since before that time."""
        query = "SELECT min(directory), max(directory) FROM files WHERE missing_since <= ?"
        first, last = self._database.execute(query, (since_before,)).fetchone()
        return first or b"", last or b""

    def verified_after(self, after: tuple[bytes, bytes], limit: int) -> list[KnownFile]:
        """Files with content that is safe, in order of (directory, name), beginning behind ``after``."""
        condition = "(directory, name) > (?, ?) AND hash IS NOT NULL AND verified = 1 AND missing_since IS NULL"
        return self._select(f"{condition} ORDER BY directory, name LIMIT ?", (*after, limit))

    def first(self, limit: int) -> list[KnownFile]:
        return self._select("1 ORDER BY directory, name LIMIT ?", (limit,))

    def _select(self, condition: str, values: tuple[Any, ...]) -> list[KnownFile]:
        query = f"SELECT {_COLUMNS} FROM files WHERE {condition}"
        return [_known(row) for row in self._database.execute(query, values)]

    def put(self, known: KnownFile, before: KnownFile | None, *, sent_at: float) -> None:
        """Remember what is being sent now; it is pending (again). ``before`` is the path's row until now."""
        signature, attributes = known.signature, known.attributes
        self.count += before is None
        self.pending_count += before is None or before.verified
        self.weak_count += (not known.strong) - (before is not None and not before.strong)
        self._database.execute(
            f"INSERT OR REPLACE INTO files ({_COLUMNS}, sent_at) VALUES ({'?, ' * 17}0, NULL, ?)",
            (
                *_key(known.path),
                known.file_type.value,
                signature.size,
                signature.mtime_ns,
                signature.ctime_ns,
                signature.inode,
                signature.device,
                attributes.mode,
                attributes.uid,
                attributes.gid,
                known.hash,
                known.parts,
                known.link_target,
                known.strong,
                known.seq,
                known.sends,
                sent_at,
            ),
        )

    def seen(self, path: bytes, signature: Signature) -> None:
        """The path is there, its content and attributes are as sent: only the signature may have moved."""
        self._database.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, device = ?, missing_since = NULL "
            "WHERE directory = ? AND name = ?",
            (
                signature.size,
                signature.mtime_ns,
                signature.ctime_ns,
                signature.inode,
                signature.device,
                *_key(path),
            ),
        )

    def mark_missing(self, path: bytes, since: float) -> None:
        self._database.execute(
            "UPDATE files SET missing_since = ? WHERE directory = ? AND name = ? AND missing_since IS NULL",
            (since, *_key(path)),
        )

    def mark_all_missing(self, directory: bytes, since: float) -> None:
        self._database.execute(
            "UPDATE files SET missing_since = ? WHERE directory = ? AND missing_since IS NULL", (since, directory)
        )

    def forget_future(self, now: float) -> None:
        self._database.execute("UPDATE files SET missing_since = ? WHERE missing_since > ?", (now, now))

    def found_again(self, path: bytes) -> None:
        self._database.execute("UPDATE files SET missing_since = NULL WHERE directory = ? AND name = ?", _key(path))

    def mark_verified(self, verified: Iterable[tuple[bytes, int]]) -> None:
        """Paths whose state of that seq is safe; a path that was sent again meanwhile stays pending."""
        done = self._database.executemany(
            "UPDATE files SET verified = 1 WHERE directory = ? AND name = ? AND seq = ? AND verified = 0",
            [(*_key(path), seq) for path, seq in verified],
        )
        self.pending_count -= done.rowcount

    def remove(self, known: KnownFile) -> None:
        self._database.execute("DELETE FROM files WHERE directory = ? AND name = ?", _key(known.path))
        self.count -= 1
        self.pending_count -= not known.verified
        self.weak_count -= not known.strong

    def clear(self) -> None:
        self._database.execute("DELETE FROM files")
        self.count = self.pending_count = self.weak_count = 0
