"""What a manifest says against what lakeFS holds: both are in the order of places, so they are read side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from headwater.connectors.lakefs.client import Difference, Entry
from headwater.rules.identity import object_key
from headwater.schemas.manifest import Change, ManifestRow

_NANOSECONDS = 1_000_000_000

Other = TypeVar("Other", Entry, Difference)


def entry_of(row: ManifestRow, bucket: str) -> Entry | None:
    """A row's file as lakeFS has it; None for what lakeFS does not have: symbolic links, removed paths.

    The metadata must name the generation: to lakeFS, an entry of which only the address changed is the same entry, and
    the commit keeps the old address.
    """
    if row.change is Change.removed or row.hash is None or row.generation is None:
        return None
    return Entry(
        path=row.place,
        physical_address=f"s3://{bucket}/{object_key(row.hash, row.generation)}",
        checksum=row.hash.hex(),
        size=row.size,
        mtime=row.mtime_ns // _NANOSECONDS,
        metadata={
            "hash": row.hash.hex(),
            "generation": str(row.generation),
            "epoch": str(row.epoch),
            "seq": str(row.seq),
            "mtime_ns": str(row.mtime_ns),
            "mode": f"{row.mode:o}",
            "uid": str(row.uid),
            "gid": str(row.gid),
            "guarantee": row.guarantee.value,
        },
    )


def delta_problems(rows: Iterable[ManifestRow], differences: Iterable[Difference], bucket: str) -> Iterator[str]:
    """Where the differences of two commits are not the delta: a sentence for each path.

    A path that is a symbolic link now, or was one when it went, may or may not differ: lakeFS has no links.
    """
    for place, row, difference in _side_by_side(((row.place, row) for row in rows), differences):
        meant = entry_of(row, bucket) if row is not None else None
        if row is None:
            yield f"{place!r} {difference.kind if difference else ''} although the manifest does not name it"
        elif meant is not None:
            found = difference and (difference.checksum, difference.size, difference.metadata)
            if found != (meant.checksum, meant.size, meant.metadata):
                yield f"{place!r} should be {meant}, the commit has {difference}"
        elif difference is None and row.change is Change.removed and row.hash is not None:
            yield f"{place!r} should be removed and is there"
        elif difference is not None and difference.kind != "removed":
            yield f"{place!r} should not be there, the commit has {difference}"


def listing_problems(files: Iterable[ManifestRow], listing: Iterable[Entry], bucket: str) -> Iterator[str]:
    """Where a listing of a commit is not the files of the version: a sentence for each path."""
    entries = (entry for row in files if (entry := entry_of(row, bucket)) is not None)
    for place, meant, found in _side_by_side(((entry.path, entry) for entry in entries), listing):
        if meant is None:
            yield f"{place!r} is in the commit and not in the manifest"
        elif found is None:
            yield f"{place!r} is in the manifest and not in the commit"
        elif (found.physical_address, found.size, found.checksum) != (
            meant.physical_address,
            meant.size,
            meant.checksum,
        ):
            yield f"{place!r} should be {meant}, the commit has {found}"


Ours = TypeVar("Ours", ManifestRow, Entry)


def _side_by_side(
    ours: Iterator[tuple[str, Ours]], theirs: Iterable[Other]
) -> Iterator[tuple[str, Ours | None, Other | None]]:
    """The union of two sequences in the order of places, as (place, ours or None, theirs or None)."""
    others = iter(theirs)
    mine, other = next(ours, None), next(others, None)
    while mine is not None or other is not None:
        if other is None or (mine is not None and mine[0] < other.path):
            assert mine is not None
            yield mine[0], mine[1], None
            mine = next(ours, None)
        elif mine is None or other.path < mine[0]:
            yield other.path, None, other
            other = next(others, None)
        else:
            yield mine[0], mine[1], other
            mine, other = next(ours, None), next(others, None)
