"""One dataset as its readers open it, and how they name its versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyarrow.compute import Expression

from headwater.connectors.catalog import versions
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.versions import Version
from headwater.connectors.lakefs.client import LakeFS
from headwater.connectors.manifests import Manifests
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import NotFound
from headwater.schemas.manifest import ManifestRow

LATEST = "latest"
_NUMBER = re.compile(r"v?(\d+)\Z")
_COMMIT = re.compile(r"[0-9a-f]{6,64}\Z")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset's name and where it is kept. What it raises when something does not answer: Unavailable."""

    name: str
    catalog: Catalog
    objects: ObjectStore
    lakefs: LakeFS

    def log(self, limit: int = 20) -> list[Version]:
        """The newest published versions, newest first. Raises NotFound where the dataset does not exist."""
        with self.catalog.transaction() as transaction:
            if versions.find(transaction, self.name) is None:
                raise self._unknown()
            return versions.published(transaction, self.name, limit)

    def resolve(self, ref: str) -> Version:
        """The version that ``latest``, ``3``, ``v3`` or the beginning of a lakeFS commit id names. Raises NotFound."""
        found: list[Version | None]
        with self.catalog.transaction() as transaction:
            if versions.find(transaction, self.name) is None:
                raise self._unknown()
            if ref == LATEST:
                found = [versions.newest(transaction, self.name)]
            elif number := _NUMBER.match(ref):
                found = [versions.by_number(transaction, self.name, int(number[1]))]
            else:
                found = [*versions.by_commit(transaction, self.name, ref)] if _COMMIT.match(ref) else []
        if len(found) != 1 or found[0] is None:
            raise NotFound(
                f"{'more than one version is' if len(found) > 1 else 'no published version is'} named {ref!r}",
                asked=f"Finding a version of {self.name}.",
                advice="`headwater dataset log` lists them; v3, 3, latest and a lakeFS commit id are names.",
            )
        return found[0]

    def files(self, version: Version, where: Expression | None = None) -> Iterator[ManifestRow]:
        """The files of a version by place, streamed from its manifests; each manifest's hash is checked."""
        with self.catalog.transaction() as transaction:
            chain = versions.manifests_of(transaction, self.name, version.version)
        return Manifests(self.objects).files(chain, where)

    def manifest(self, version: Version) -> Iterator[ManifestRow]:
        """What a version changes from its parent, by place."""
        assert version.manifest_hash is not None
        return Manifests(self.objects).read(version.manifest_hash)

    def repository(self) -> str:
        """Its lakeFS repository. Raises NotFound."""
        with self.catalog.transaction() as transaction:
            row = versions.find(transaction, self.name)
        if row is None:
            raise self._unknown()
        return row.repository

    def _unknown(self) -> NotFound:
        return NotFound(
            f"there is no dataset {self.name}",
            advice="It begins with the first commit: start `headwater run commit`, and check the name in the settings.",
        )
