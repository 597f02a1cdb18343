"""Content whose bytes cannot be had now, because the root of its source is away: put off, so that others go on.

1. defer     the claim says why it waits; the batch's offsets move on, past its record
2. resume    now and then, in batches and between them, a member looks whether roots of the deferred claims of its
             partitions are there again, and takes claims of those into its batch
3. announce  what is stored at last keeps its mark until verify has judged it

A crash after 1 leaves the claim, found by its mark. A crash after 2, or after it was stored and before the outputs
were committed, ends in a new assignment: then everything that is marked and stored is announced once more. Nothing of
it becomes a dead letter, and versions name its paths as waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.connectors.catalog import deferred, files
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.files import SourceRow
from headwater.connectors.catalog.objects import Claim
from headwater.observe import logs, metrics
from headwater.schemas.topics import Topic
from headwater.streams.runtime.processor import Batch
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.places import Place
from headwater.streams.upload.reading import Roots

log = logs.logger()

RETRY_SECONDS = 5.0
"""How often roots that are away are looked for: one open each."""

_OTHERS = 20
"""Claims of sources that are still away, looked at each time: a copy of the content may lie in another source."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Claims to try again, where their contents may lie, and contents to announce. Of most batches: nothing."""

    claims: tuple[Claim, ...] = ()
    places: Mapping[bytes, Sequence[Place]] = field(default_factory=dict)
    sources: Mapping[str, SourceRow] = field(default_factory=dict)
    stored: tuple[bytes, ...] = ()

    @property
    def hashes(self) -> set[bytes]:
        """Every content that outputs may be due for."""
        return {one.hash for one in self.claims}.union(self.stored)


class Deferred:
    """Used by a lane's one step thread. ``limit``: claims taken into one batch."""

    def __init__(
        self,
        catalog: Catalog,
        ownership: Ownership,
        topic: Topic,
        roots: Mapping[str, Path],
        *,
        lane: str,
        limit: int,
    ) -> None:
        self._catalog = catalog
        self._ownership = ownership
        self._topic = topic
        self._roots = roots
        self._lane = lane
        self._limit = limit
        self._assignment: int | None = None
        self._resume_at = 0.0
        self._shown: set[str] = set()

    def put_off(self, reasons: Mapping[Claim, str]) -> None:
        """Step 1. Raises Fenced."""
        if not reasons:
            return
        with self._catalog.transaction() as transaction:
            deferred.defer(transaction, reasons)
        for source in {one.source for one in reasons} - self._shown:
            reason = next(reason for one, reason in reasons.items() if one.source == source)
            log.warning("upload.deferred", lane=self._lane, source=source, reason=reason)

    def resume(self, batch: Batch) -> Resumed:
        """Step 2, and 3 after a new assignment. Raises Fenced."""
        partitions = [partition for topic, partition in batch.held if topic == self._topic.name]
        is_new = batch.assignment != self._assignment
        if not partitions or (not is_new and time.monotonic() < self._resume_at):
            return Resumed()
        with self._catalog.transaction() as transaction:
            stored = deferred.unannounced(transaction, self._topic.name, partitions) if is_new else []
            waiting = deferred.waiting(transaction, self._topic.name, partitions)
            sources = files.sources(transaction, {source for by_source in waiting.values() for source in by_source})
        self._show(waiting)
        with Roots(self._roots, sources) as roots:
            roots.open_all(sources)
            there = {source for source in sources if source in roots}
        claims = self._take_over(batch, waiting, there) if waiting else []
        self._assignment = batch.assignment
        self._resume_at = 0.0 if len(claims) >= self._limit else time.monotonic() + RETRY_SECONDS
        return self._with_places(claims, tuple(stored))

    def _take_over(self, batch: Batch, partitions: Iterable[int], there: set[str]) -> list[Claim]:
        listed = sorted(partitions)
        self._ownership.take(batch, also=listed)
        with self._catalog.transaction() as transaction:
            owners = self._ownership.hold(transaction, listed)
            claims = deferred.take_over(transaction, owners, self._limit, of=there) if there else []
            return claims + deferred.take_over(transaction, owners, _OTHERS, not_of=there)

    def _with_places(self, claims: Sequence[Claim], stored: tuple[bytes, ...]) -> Resumed:
        if not claims:
            return Resumed(stored=stored)
        with self._catalog.transaction() as transaction:
            paths = files.waiting_paths(transaction, [one.hash for one in claims])
            sources = files.sources(transaction, {one.source for one in paths})
        places: dict[bytes, list[Place]] = {one.hash: [] for one in claims}
        for path in paths:
            places[path.hash].append(Place(path.source, path.path))
        return Resumed(tuple(claims), places, sources, stored)

    def _show(self, waiting: Mapping[int, Mapping[str, int]]) -> None:
        counts: dict[str, int] = {}
        for by_source in waiting.values():
            for source, count in by_source.items():
                counts[source] = counts.get(source, 0) + count
        for source in self._shown | counts.keys():
            metrics.UPLOAD_DEFERRED.labels(self._lane, source).set(counts.get(source, 0))
        self._shown = set(counts)
