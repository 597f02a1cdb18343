"""Proving a version: that lakeFS, the bucket and, where it is at hand, the source hold what the manifest says.

The manifest is the reference: it is named by its hash in the catalog and in the lakeFS commit, so it cannot change
unseen. Each proof reads one side in full and compares it, path by path; nothing is sampled.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from blake3 import blake3

from headwater.connectors.catalog.versions import Version
from headwater.connectors.lakefs.comparison import listing_problems
from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.folder import open_below
from headwater.consumers.dataset.reading import content_of
from headwater.rules.collisions import Collision, collisions
from headwater.rules.errors import Corrupt, HeadwaterError, NotFound
from headwater.rules.identity import Clock, display
from headwater.schemas.manifest import ManifestRow
from headwater.schemas.records import FileType

PROBLEMS_KEPT = 1_000
COLLISIONS_KEPT = 1_000
_READS_AT_ONCE = 8
_READ_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Told of each file or object that was proved: (files so far, bytes so far)."""


@dataclass(frozen=True, slots=True)
class BrokenObject:
    """An object that is not there, or holds other bytes than its name says."""

    hash: bytes
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was proved of a version. ``problems`` holds the first thousand of ``problem_count``; ``broken`` all objects
    that reading found so. ``collisions``: the first thousand of ``collision_count`` places that a reader who folds case
    or Unicode form takes for another; they are right."""

    version: Version
    files: int
    objects_read: int
    bytes_read: int
    source_files: int
    problem_count: int
    problems: tuple[str, ...]
    broken: tuple[BrokenObject, ...]
    collision_count: int
    collisions: tuple[Collision, ...]

    @property
    def is_right(self) -> bool:
        return self.problem_count == 0


class _Findings:
    """Counts of one verification while it runs."""

    def __init__(self, progress: Progress) -> None:
        self.files = self.objects = self.read = self.source_files = self.problem_count = self.collision_count = 0
        self.problems: list[str] = []
        self.collisions: list[Collision] = []
        self.broken: list[BrokenObject] = []
        self._progress = progress

    def problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(sentence)

    def collision(self, collision: Collision) -> None:
        self.collision_count += 1
        if len(self.collisions) < COLLISIONS_KEPT:
            self.collisions.append(collision)

    def step(self) -> None:
        self._progress(self.files + self.objects + self.source_files, self.read)


def verify(
    dataset: Dataset,
    ref: str,
    *,
    deep: bool = False,
    source_roots: Mapping[str, bytes] | None = None,
    progress: Progress = lambda _files, _bytes: None,
) -> Verification:
    """Prove a version against its manifest.

    Always: the manifests have the hashes that the catalog and the commit name, the counts are right, and the listing
    of the commit is exactly the manifest's files with the right address, size and checksum. ``deep``: every object is
    read from the bucket, and its BLAKE3 compared. ``source_roots`` (source to root on this host): every file whose
    state is not beyond the cut is read there; what was edited since the version differs, rightly.

    Raises NotFound for an unknown ref, and Unavailable: what could not be asked is not proved.
    """
    version = dataset.resolve(ref)
    findings = _Findings(progress)
    try:
        _prove_counts(dataset, version, findings)
        _prove_commit(dataset, version, findings)
        if deep:
            _prove_objects(dataset, version, findings)
        for source, root in (source_roots or {}).items():
            _prove_source(dataset, version, source, root, findings)
    except (Corrupt, NotFound) as error:  # a manifest or the commit itself
        findings.problem(str(error))
    return Verification(
        version,
        findings.files,
        findings.objects,
        findings.read,
        findings.source_files,
        findings.problem_count,
        tuple(findings.problems),
        tuple(findings.broken),
        findings.collision_count,
        tuple(findings.collisions),
    )


def _prove_counts(dataset: Dataset, version: Version, findings: _Findings) -> None:
    content_bytes = 0

    def places() -> Iterator[bytes]:
        nonlocal content_bytes
        for row in dataset.files(version):
            findings.files += 1
            content_bytes += row.size if row.hash is not None else 0
            yield row.place.encode()

    for collision in collisions(places()):
        findings.collision(collision)
    if (findings.files, content_bytes) != (version.files, version.content_bytes):
        findings.problem(
            f"the manifest holds {findings.files} files of {content_bytes} bytes, "
            f"the catalog says {version.files} of {version.content_bytes}"
        )
    findings.step()


def _prove_commit(dataset: Dataset, version: Version, findings: _Findings) -> None:
    assert version.commit_id is not None
    assert version.manifest_hash is not None
    repository = dataset.repository()
    commit = dataset.lakefs.head_of(repository, version.commit_id)
    if commit.metadata.get("manifest") != version.manifest_hash.hex():
        findings.problem(
            f"the commit {commit.id} names the manifest {commit.metadata.get('manifest')}, "
            f"the catalog {version.manifest_hash.hex()}"
        )
    listing = dataset.lakefs.list_objects(repository, version.commit_id)
    for sentence in listing_problems(dataset.files(version), listing, dataset.objects.config.bucket):
        findings.problem(sentence)


def _prove_objects(dataset: Dataset, version: Version, findings: _Findings) -> None:
    """Read each object once, several at once."""
    with ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="verify") as threads:
        for window in _windows(_distinct(dataset.files(version)), _READS_AT_ONCE * 8):
            for row, reason in zip(window, threads.map(lambda row: _read(dataset, row), window), strict=True):
                findings.objects += 1
                findings.read += row.size
                if reason:
                    findings.problem(f"{row.place!r}: {reason}")
                    findings.broken.append(_broken(row, reason))
                findings.step()


def _distinct(files: Iterator[ManifestRow]) -> Iterator[ManifestRow]:
    """One row for each object."""
    seen: set[tuple[bytes, int]] = set()
    for row in files:
        if row.hash is not None and row.generation is not None and (row.hash, row.generation) not in seen:
            seen.add((row.hash, row.generation))
            yield row


def _read(dataset: Dataset, row: ManifestRow) -> str:
    """What is wrong with the bytes of a file; empty where nothing is."""
    try:
        for _piece in content_of(dataset, row):
            pass
    except (Corrupt, NotFound) as error:
        return error.happened
    return ""


def _broken(row: ManifestRow, reason: str) -> BrokenObject:
    assert row.hash is not None
    assert row.generation is not None
    return BrokenObject(row.hash, row.generation, reason)


def _prove_source(dataset: Dataset, version: Version, source: str, root: bytes, findings: _Findings) -> None:
    """Compare the source's own files; what is newer than the cut is not promised, hence not compared."""
    cut = version.cut.get(source)
    if cut is None or cut["complete_to"] is None:
        findings.problem(f"the version promises nothing of the source {source}: it has no cut")
        return
    complete_to = Clock(cut["epoch"], cut["complete_to"])
    for row in dataset.files(version):
        if row.source != source or row.clock > complete_to:
            continue
        findings.source_files += 1
        if sentence := _compare_with_source(root, row):
            findings.problem(f"{display(os.path.join(root, row.path))}: {sentence}")
        findings.step()


def _compare_with_source(root: bytes, row: ManifestRow) -> str:
    try:
        if row.file_type is FileType.symlink:
            target = os.readlink(os.path.join(root, row.path))
            return "" if target == row.link_target else "the link points elsewhere"
        with open_below(root, row.path) as file:
            described = os.fstat(file.fileno())
            if not stat.S_ISREG(described.st_mode) or described.st_size != row.size:
                return f"it has {described.st_size} bytes, the version {row.size}"
            hasher = blake3()
            while piece := file.read(_READ_BYTES):
                hasher.update(piece)
            return "" if hasher.digest() == row.hash else "its content differs from the version's"
    except (OSError, HeadwaterError) as error:
        return f"it cannot be read: {error}"


def _windows(rows: Iterator[ManifestRow], size: int) -> Iterator[list[ManifestRow]]:
    while window := list(islice(rows, size)):
        yield window
