"""What the demo reads of the running system: how far the folder has come, and whether the catalog equals it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.progress import Amount, progress
from headwater.connectors.catalog.source_state import complete, objects_in_parts, verified_files
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.lag import group_lags
from headwater.connectors.s3.store import ObjectStore
from headwater.demo.trees import Tree, link_to
from headwater.demo.view import GroupLag, Snapshot, Stage
from headwater.rules.errors import NotFound, Transient
from headwater.rules.identity import object_key

LAG_SECONDS = 1.0
"""How often the groups' lag is measured: it asks the broker about every partition."""

_NOTHING = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of large files: those that the catalog knows, and those that S3 itself says that it has."""

    known: int
    in_s3: int


class River:
    """Read-only questions about one source and the dataset of the same name."""

    def __init__(self, catalog: Catalog, kafka: Kafka, store: ObjectStore, name: str) -> None:
        self._catalog = catalog
        self._store = store
        self._kafka = kafka
        self._name = name
        self._lags: tuple[GroupLag, ...] = ()
        self._lags_at = 0.0

    def snapshot(self) -> Snapshot:
        return Snapshot(self._stages(), self._lag())

    def _stages(self) -> tuple[Stage, ...]:
        with self._catalog.transaction() as transaction:
            now = progress(transaction)
        source = next((one for one in now.sources if one.source == self._name), None)
        dataset = next((one for one in now.datasets if one.dataset == self._name), None)
        newest = Amount(dataset.files, dataset.bytes) if dataset else _NOTHING
        version = f"version {dataset.version}" if dataset and dataset.version else "no version yet"
        reached = (
            ("found", "quiet, hashed, on the log", source.found if source else _NOTHING),
            ("claimed", "distinct contents to send", source.claimed if source else _NOTHING),
            ("stored", "in S3, its checksum taken", source.stored if source else _NOTHING),
            ("verified", "read back, the hash is equal", source.verified if source else _NOTHING),
            ("committed", version, newest),
        )
        return tuple(Stage(name, meaning, amount.count, amount.bytes) for name, meaning, amount in reached)

    def _lag(self) -> tuple[GroupLag, ...]:
        if time.time() - self._lags_at >= LAG_SECONDS:
            with suppress(Transient):  # a group without a coordinator, for a moment: the last figure stays
                measured = group_lags(self._kafka, time.time())
                self._lags = tuple(GroupLag(group.group, group.records, group.seconds) for group in measured)
            self._lags_at = time.time()
        return self._lags

    def files(self) -> int:
        """Paths that the source has, by the catalog's counter."""
        return next(stage.files for stage in self._stages() if stage.name == "found")

    def verified_tree(self) -> Tree:
        """What the catalog would put into a version now: each path's newest state, where its bytes are verified."""
        with self._catalog.transaction() as transaction:
            files = verified_files(transaction, self._name)
        return {
            file.path: link_to(file.link_target) if file.link_target is not None else (file.hash or b"").hex()
            for file in files
        }

    def complete(self) -> bool:
        """Are all recorded changes below the source's complete_to, so that a version takes them?"""
        with self._catalog.transaction() as transaction:
            return complete(transaction, self._name)

    def parts(self) -> Parts:
        with self._catalog.transaction() as transaction:
            objects = objects_in_parts(transaction, self._name)
        in_s3 = sum(
            self._parts_in_s3(object_key(one.hash, one.generation), one.upload_id, one.parts)
            if one.uploading
            else one.parts
            for one in objects
        )
        return Parts(known=sum(one.parts for one in objects), in_s3=in_s3)

    def _parts_in_s3(self, key: str, upload: str | None, parts: int) -> int:
        if upload is None:
            return 0
        try:
            return len(self._store.list_parts(key, upload))
        except NotFound:  # completed between the two questions
            return parts
