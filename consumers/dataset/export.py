"""Taking a version out: its files in a folder, as they were at the source.

Each file is written beside its place, hashed on the way, flushed, and renamed into place: whenever the export dies, a
path holds the whole right file or what it held before. What is right already is kept, so an export that died goes on
by being run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from blake3 import blake3

from headwater.connectors.catalog.versions import Version
from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.folder import open_below, parent_of
from headwater.consumers.dataset.folding import taken_for_one
from headwater.consumers.dataset.reading import content_of
from headwater.rules.collisions import Collision
from headwater.rules.errors import Corrupt, NotFound, Refused
from headwater.rules.identity import display
from headwater.schemas.manifest import ManifestRow, with_prefix
from headwater.schemas.records import FileType

_COPIES_AT_ONCE = 8
_READ_BYTES = 1 << 20
_PERMISSIONS = 0o7777
_COLLISIONS_NAMED = 5
_COLLISIONS_KEPT = 1_000

Progress = Callable[[int, int], None]
"""Told after each file: (files so far, bytes written so far)."""


@dataclass(frozen=True, slots=True)
class Export:
    """What an export did. ``problems``: a sentence for each path that could not be taken out whole and right.

    ``shadowed``: files that the version holds below a path that, by a newer state, is a file itself, or the other way
    round; a folder can hold only one of the two, the newer one.
    """

    version: Version
    written: int
    kept: int
    links: int
    bytes_written: int
    shadowed: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


def export(
    dataset: Dataset,
    ref: str,
    directory: str | os.PathLike[str],
    *,
    prefix: str = "",
    progress: Progress = lambda _files, _bytes: None,
) -> Export:
    """Write the files of a version below ``directory``, as ``<source>/<path>`` with their true names.

    Content, modification time, permission bits and symbolic links are restored; owners are not. Nothing is written
    outside the directory, nothing else in it is touched. Raises NotFound, Unavailable, and Refused where the directory
    cannot be written or the disk is full: run it again to go on. Refused as well, before any file is written, where
    the directory has one place for two names of the version.
    """
    version = dataset.resolve(ref)
    try:
        return _export(dataset, version, os.fsencode(directory), prefix, progress)
    except OSError as error:
        raise Refused(
            f"the folder {os.fspath(directory)} refused: {error}",
            asked=f"Exporting version {version.version} of {dataset.name}.",
            kept="Files that were written are whole and stay.",
            advice="Make room or set the permissions, then run the same command again: it goes on.",
        ) from error


def _export(dataset: Dataset, version: Version, root: bytes, prefix: str, progress: Progress) -> Export:
    os.makedirs(root, exist_ok=True)
    rows, shadowed = _without_shadows(dataset.files(version, with_prefix(prefix) if prefix else None))
    if found := taken_for_one(root, map(_target, rows)):
        raise _collided(dataset, version, root, found)
    files = [row for row in rows if row.file_type is not FileType.symlink]
    links = [row for row in rows if row.file_type is FileType.symlink]
    written = kept = bytes_written = 0
    problems: list[str] = []
    with ThreadPoolExecutor(_COPIES_AT_ONCE, thread_name_prefix="export") as threads:
        source = iter(files)
        while window := list(islice(source, _COPIES_AT_ONCE * 8)):
            for row, (was_written, problem) in zip(
                window, threads.map(lambda row: _attempt(_take_out, dataset, root, row), window), strict=True
            ):
                written += was_written and not problem
                kept += not was_written and not problem
                bytes_written += row.size if was_written else 0
                problems += [problem] if problem else []
                progress(written + kept, bytes_written)
    for row in links:  # after the files, so that no file could ever be written through one
        _, problem = _attempt(_make_link, dataset, root, row)
        problems += [problem] if problem else []
    return Export(
        version, written, kept, len(links), bytes_written, tuple(row.place for row in shadowed), tuple(problems)
    )


def _without_shadows(rows: Iterator[ManifestRow]) -> tuple[list[ManifestRow], list[ManifestRow]]:
    """Rows that a folder can hold together, and those that a newer state made impossible."""
    listed = list(rows)
    by_path = {(row.source, row.path): row for row in listed}
    shadowed: set[tuple[str, bytes]] = set()
    for row in listed:
        above = row.path
        while b"/" in above:
            above = above.rpartition(b"/")[0]
            if other := by_path.get((row.source, above)):
                older = min(row, other, key=lambda one: one.clock)
                shadowed.add((older.source, older.path))
    kept = [row for row in listed if (row.source, row.path) not in shadowed]
    return kept, [by_path[key] for key in sorted(shadowed)]


def _collided(dataset: Dataset, version: Version, root: bytes, found: list[Collision]) -> Refused:
    named = "; ".join(map(str, found[:_COLLISIONS_NAMED]))
    more = len(found) - _COLLISIONS_NAMED
    return Refused(
        f"the folder {display(root)} has one place for names that differ in case or Unicode form alone: {named}"
        + (f"; and {more:,} more." if more > 0 else "."),
        asked=f"Exporting version {version.version} of {dataset.name}.",
        kept="No file was written.",
        advice="Choose a folder on a filesystem that tells them apart (ext4, XFS), or export parts of the version, "
        "each by its PREFIX and into a folder of its own.",
        count=len(found),
        collisions=found[:_COLLISIONS_KEPT],
    )


def _attempt(
    work: Callable[[Dataset, bytes, ManifestRow], bool], dataset: Dataset, root: bytes, row: ManifestRow
) -> tuple[bool, str]:
    """(did it write?, what went wrong with this file; empty: nothing)"""
    try:
        return work(dataset, root, row), ""
    except (Corrupt, NotFound, Refused) as error:
        return False, f"{row.place!r}: {error.happened}"
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        return False, f"{row.place!r}: something else stands in its way: {error}"


def _target(row: ManifestRow) -> bytes:
    return os.fsencode(row.source) + b"/" + row.path


def _take_out(dataset: Dataset, root: bytes, row: ManifestRow) -> bool:
    """Bring one regular file about; False where it was there already."""
    assert row.hash is not None
    target = _target(row)
    with parent_of(root, target, create=True) as (folder, name):
        is_there = _has_content(root, target, row)
        if not is_there:
            temporary = b".headwater-" + row.hash.hex()[:16].encode() + b"-" + blake3(name).digest()[:4].hex().encode()
            _write(dataset, folder, temporary, row)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            _restore_attributes(name, folder, row)
        return not is_there


def _has_content(root: bytes, target: bytes, row: ManifestRow) -> bool:
    try:
        with open_below(root, target) as file:
            if os.fstat(file.fileno()).st_size != row.size:
                return False
            hasher = blake3()
            while piece := file.read(_READ_BYTES):
                hasher.update(piece)
            return hasher.digest() == row.hash
    except OSError:
        return False


def _write(dataset: Dataset, folder: int, name: bytes, row: ManifestRow) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # of an export that died
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in content_of(dataset, row):
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), row.mode & _PERMISSIONS)
            os.utime(file.fileno(), ns=(row.mtime_ns, row.mtime_ns))
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise


def _restore_attributes(name: bytes, folder: int, row: ManifestRow) -> None:
    os.chmod(name, row.mode & _PERMISSIONS, dir_fd=folder)
    os.utime(name, ns=(row.mtime_ns, row.mtime_ns), dir_fd=folder, follow_symlinks=False)


def _make_link(_dataset: Dataset, root: bytes, row: ManifestRow) -> bool:
    """Bring one symbolic link about; False where it was there already."""
    assert row.link_target is not None
    with parent_of(root, _target(row), create=True) as (folder, name):
        with suppress(OSError):
            if os.readlink(name, dir_fd=folder) == row.link_target:
                return False
        temporary = b".headwater-link-" + blake3(name).digest()[:8].hex().encode()
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        os.symlink(row.link_target, temporary, dir_fd=folder)
        os.utime(temporary, ns=(row.mtime_ns, row.mtime_ns), dir_fd=folder, follow_symlinks=False)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
