"""Manifests in the bucket: Parquet under its own BLAKE3, written once, checked whenever it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyarrow.compute import Expression

from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import Corrupt
from headwater.rules.identity import content_hash
from headwater.schemas import manifest
from headwater.schemas.manifest import ManifestRow


def manifest_key(content: bytes) -> str:
    """S3 key of the manifest with this hash."""
    digits = content.hex()
    return f"manifests/{digits[:2]}/{digits}.parquet"


class Manifests:
    """Safe for threads. Raises what the object store raises."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def store(self, data: bytes) -> bytes:
        """Store an encoded manifest; returns its hash. The same bytes give the same object."""
        content = content_hash(data)
        self._objects.put(manifest_key(content), data)
        return content

    def read(self, content: bytes, where: Expression | None = None) -> Iterator[ManifestRow]:
        """The rows that ``where`` selects, in the order of their places.

        Raises NotFound, and Corrupt where the bytes are not the manifest.
        """
        data = self._objects.get(manifest_key(content))
        if content_hash(data) != content:
            raise Corrupt(
                f"the manifest {manifest_key(content)} does not have the hash that it is named by",
                kept="The catalog's version_changes hold the same rows.",
                advice="Restore the object from a backup or another region.",
            )
        return manifest.decode(data, where)

    def files(self, contents: Sequence[bytes], where: Expression | None = None) -> Iterator[ManifestRow]:
        """The files of the version that these manifests make (a base, then deltas, oldest first), by place."""
        return manifest.applied([self.read(content, where) for content in contents])
