"""What changed between two versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headwater.consumers.dataset.dataset import Dataset
from headwater.schemas.manifest import ManifestRow, at


class Kind(StrEnum):
    added = "added"
    changed = "changed"
    metadata = "metadata"
    """The content is the same; the time, mode, owner or guarantee differ."""
    removed = "removed"
    renamed = "renamed"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One file that differs. ``before`` is at its old place, ``after`` at its new one, None where it is not there."""

    kind: Kind
    before: ManifestRow | None
    after: ManifestRow | None

    @property
    def place(self) -> str:
        row = self.after or self.before
        assert row is not None
        return row.place


def diff(dataset: Dataset, left: str, right: str) -> list[FileDifference]:
    """What a reader of ``left`` finds different in ``right``, by place; either may be the older one.

    A file that is gone from one place and came at another with the same content is one rename.
    """
    before_version, after_version = dataset.resolve(left), dataset.resolve(right)
    older, newer = sorted((before_version, after_version), key=lambda version: version.version)
    touched: set[str] = set()
    for number in range(older.version + 1, newer.version + 1):
        touched |= {row.place for row in dataset.manifest(dataset.resolve(str(number)))}
    before = {row.place: row for row in dataset.files(before_version, at(touched))}
    after = {row.place: row for row in dataset.files(after_version, at(touched))}
    found = [_difference(before.get(place), after.get(place)) for place in touched]
    return sorted(_with_renames([one for one in found if one is not None]), key=lambda one: one.place)


def _difference(before: ManifestRow | None, after: ManifestRow | None) -> FileDifference | None:
    if before is None or after is None:
        if before is after:
            return None  # came and went between the two
        return FileDifference(Kind.added if before is None else Kind.removed, before, after)
    if _content(before) != _content(after):
        return FileDifference(Kind.changed, before, after)
    return FileDifference(Kind.metadata, before, after) if _described(before) != _described(after) else None


def _content(row: ManifestRow) -> tuple[object, ...]:
    return row.file_type, row.hash, row.link_target


def _described(row: ManifestRow) -> tuple[object, ...]:
    return row.mtime_ns, row.mode, row.uid, row.gid, row.guarantee, row.generation


def _with_renames(found: list[FileDifference]) -> Iterator[FileDifference]:
    """Removed and added files of one content paired, in the order of places; each pair is one rename."""
    gone: dict[bytes, list[FileDifference]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.place, reverse=True):
        if one.kind is Kind.removed and one.before is not None and one.before.hash is not None:
            gone[one.before.hash].append(one)
    paired: set[str] = set()
    for one in sorted(found, key=lambda one: one.place):
        if one.kind is Kind.added and one.after is not None and one.after.hash in gone and gone[one.after.hash]:
            old = gone[one.after.hash].pop()
            paired |= {one.place, old.place}
            yield FileDifference(Kind.renamed, old.before, one.after)
    yield from (one for one in found if one.place not in paired)
