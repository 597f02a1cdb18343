"""Looking into a version: what it says of itself, its files, one file's bytes."""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

from headwater.connectors.catalog.versions import Version
from headwater.consumers.dataset.dataset import Dataset
from headwater.rules.errors import Corrupt, NotFound, Refused
from headwater.rules.identity import object_key
from headwater.schemas.manifest import ManifestRow, at, with_prefix


def show(dataset: Dataset, ref: str) -> Version:
    """Everything that a version says of itself: its cut and exceptions, counts, commit, manifest."""
    return dataset.resolve(ref)


def ls(dataset: Dataset, ref: str, prefix: str = "") -> Iterator[ManifestRow]:
    """The files of a version whose place starts with ``prefix``, in the order of their places."""
    return dataset.files(dataset.resolve(ref), with_prefix(prefix) if prefix else None)


def file_at(dataset: Dataset, ref: str, place: str) -> ManifestRow:
    """The file at a place (``<source>/<path>`` as ls shows it). Raises NotFound."""
    version = dataset.resolve(ref)
    found = next(dataset.files(version, at([place])), None)
    if found is None:
        raise NotFound(
            f"version {version.version} has no {place!r}",
            asked=f"Reading a file of {dataset.name}.",
            advice=f"`headwater dataset ls v{version.version}` lists its files.",
        )
    return found


def cat(dataset: Dataset, ref: str, place: str) -> Iterator[bytes]:
    """The bytes of a file, in pieces. Raises NotFound; Refused for a symbolic link, which has none.

    Raises Corrupt after the last piece if they are not the bytes that were committed: whoever keeps what was yielded
    before must drop it then.
    """
    row = file_at(dataset, ref, place)
    if row.hash is None:
        raise Refused(
            f"{place!r} is a symbolic link to {(row.link_target or b'').decode(errors='backslashreplace')!r}",
            asked=f"Reading a file of {dataset.name}.",
            advice="Read what it points at, or export the version.",
        )
    return content_of(dataset, row)


def content_of(dataset: Dataset, row: ManifestRow) -> Iterator[bytes]:
    """The bytes of a regular file, hashed on the way; Corrupt after the last piece if the hash differs."""
    assert row.hash is not None
    assert row.generation is not None
    key = object_key(row.hash, row.generation)
    hasher, size = blake3(), 0
    for piece in dataset.objects.chunks(key):
        hasher.update(piece)
        size += len(piece)
        yield piece
    if size != row.size or hasher.digest() != row.hash:
        raise Corrupt(
            f"{key} holds {size} bytes with BLAKE3 {hasher.hexdigest()}, not {row.size} with {row.hash.hex()}",
            asked=f"Reading {row.place!r} of {dataset.name}.",
            kept="The catalog and the manifest are right; the object in the bucket is not.",
            advice="Find every file that it spoils with `headwater dataset verify REF --deep`.",
        )
