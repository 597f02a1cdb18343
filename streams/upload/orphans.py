"""Multipart uploads that nobody continues: their parts cost storage for ever, so now and then a member aborts them.

They come of contents that were given up (torn, cut anew, gone from every path) before their upload was aborted, of a
member that was cut off between S3's answer and the catalog, and of a catalog that was restored from before them. One
sweep, by each member for the partitions that it holds:

1. list     unfinished uploads of object keys that began longer ago than the age
2. give up  one catalog transaction, as the holder: claims on them that were not touched for that long and whose content
            no path has any more are gone. A record that comes late finds no claim, and its path is asked for again
3. look     one catalog transaction, as the holder: which of them no claim continues or may take up. None of those is
            ever continued (connectors/catalog/orphans.py), so nothing needs to be held after it
4. abort    each whose last part, too, is older than the age

A crash after 2 leaves contents that are gone, of which the next sweep finds the uploads; within 4 fewer orphans. An
upload without a row could be taken up by a new claim of its key between 3 and 4: that claim then finds it ended and
begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.connectors.catalog import counters, objects, orphans
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.orphans import Upload
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import NotFound, Refused, Transient
from headwater.rules.identity import OBJECTS, object_key, object_of
from headwater.schemas.topics import Topic
from headwater.streams.runtime.processor import Batch
from headwater.streams.upload.ownership import Ownership

log = logs.logger()

SWEEP_SECONDS = 3600.0
"""Between two sweeps: of an age of a day an hour is little, and a sweep lists every unfinished upload."""

_AT_ONCE = 25
"""Orphans that one sweep takes on, two requests each: at 300 ms a request the next batch waits 15 s. The sweep after
that batch goes on."""


@dataclass(frozen=True, slots=True)
class Old:
    """An upload that began longer ago than the age, and the input partition that it belongs to."""

    upload: Upload
    begun: datetime
    partition: int

    @property
    def key(self) -> str:
        return object_key(self.upload.hash, self.upload.generation)


class Orphans:
    """Used by the lane's one step thread, after its batch."""

    def __init__(
        self,
        catalog: Catalog,
        store: ObjectStore,
        ownership: Ownership,
        topic: Topic,
        *,
        age_seconds: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._ownership = ownership
        self._topic = topic
        self._age_seconds = age_seconds
        self._now = now
        self._sweep_at = 0.0

    def sweep(self, batch: Batch) -> None:
        """Steps 1 to 4, when they are due. A sweep that fails holds up nothing. Raises Fenced."""
        held = {partition for topic, partition in batch.held if topic == self._topic.name}
        if not held or time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + SWEEP_SECONDS
        try:
            old = self.list_old(held)
            if old:
                self._ownership.take(batch, also={one.partition for one in old})
                self.give_up(old)
                self.abort(self.look(old), batch)
        except (Transient, Refused) as error:
            log.warning("orphans.not_swept", error=str(error))

    def list_old(self, held: Collection[int]) -> list[Old]:
        """Step 1, those that belong to the held partitions; the oldest first."""
        begun: dict[Upload, datetime] = {}
        for one in self._store.list_multiparts(OBJECTS):
            named = object_of(one.key)
            if named is not None and self._age(one.begun) >= self._age_seconds:
                begun[Upload(*named, one.upload_id)] = one.begun
        if not begun:
            return []
        with self._catalog.transaction() as transaction:
            homes = orphans.homes(transaction, self._topic.name, list(begun))
        mine = [Old(upload, begun[upload], partition) for upload, partition in homes.items() if partition in held]
        return sorted(mine, key=lambda one: one.begun)

    def give_up(self, old: Sequence[Old]) -> None:
        """Step 2. Raises Fenced."""
        with self._catalog.transaction() as transaction:
            owners = self._ownership.hold(transaction, {one.partition for one in old})
            unneeded = orphans.forgotten(transaction, {one.upload.hash for one in old}, self._age_seconds)
            claims = objects.take_over(transaction, owners, unneeded)
            gone = objects.mark_gone(transaction, claims, ["no path has it any more"] * len(claims))
            counters.add(transaction, gone)

    def look(self, old: Sequence[Old]) -> list[Old]:
        """Step 3. Raises Fenced."""
        with self._catalog.transaction() as transaction:
            self._ownership.hold(transaction, {one.partition for one in old})
            unclaimed = set(orphans.unclaimed(transaction, [one.upload for one in old]))
        return [one for one in old if one.upload in unclaimed]

    def abort(self, found: Sequence[Old], batch: Batch) -> None:
        """Step 4."""
        aborted = sum(self._abort_one(one) for one in found[:_AT_ONCE] if batch.is_current())
        if aborted == _AT_ONCE:
            self._sweep_at = 0.0

    def _abort_one(self, orphan: Old) -> bool:
        """Unless it ended meanwhile, or a part came of late."""
        upload_id = orphan.upload.upload_id
        try:
            parts = self._store.list_parts(orphan.key, upload_id).values()
        except NotFound:
            return False
        age = self._age(max((part.sent for part in parts), default=orphan.begun))
        if age < self._age_seconds:
            return False
        self._store.abort_multipart(orphan.key, upload_id)
        metrics.UPLOAD_ORPHANS.inc()
        log.info("orphan.aborted", key=orphan.key, upload=upload_id, age_seconds=round(age), parts=len(parts))
        return True

    def _age(self, since: datetime) -> float:
        return (self._now() - since).total_seconds()
