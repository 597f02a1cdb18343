"""The lane of parts: content above 64 MiB is sent part by part into one multipart upload.

Reads ``fs.parts.<site>``. Writes ``sync.objects.large`` and ``sync.requests``. Effect: one stored object per content.
Safe to repeat: a part that the catalog or ListParts shows as finished is not sent again, and outputs follow from the
record and the state that is found. All parts of a content are in one input partition, so one member owns its upload.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from headwater.connectors.catalog import counters, files, objects, parts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.files import SourceRow, WaitingPath
from headwater.connectors.catalog.objects import Claim, Wanted
from headwater.connectors.catalog.parts import Part
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError, NotFound, Torn
from headwater.schemas.records import FilePart, ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS_LARGE, SYNC_REQUESTS, Topic, fs_parts
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.dead_letters import give_up
from headwater.streams.upload.emissions import PartInput, belonging, checked, cut_otherwise, of_present_owner
from headwater.streams.upload.multipart_uploads import MultipartUploads, ended
from headwater.streams.upload.outputs import requests_for
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.places import Place, places_elsewhere
from headwater.streams.upload.reading import Roots, read_exactly, torn
from headwater.streams.upload.transfers import Transfers

log = logs.logger()
LANE = "parts"


@dataclass(frozen=True, slots=True)
class Work:
    """What step 1 found to do: the claims of the batch, and a place on disk for each of their contents."""

    claims: tuple[Claim, ...]
    places: Mapping[bytes, FilePart]
    sources: Mapping[str, SourceRow]


@dataclass(frozen=True, slots=True)
class SentPart:
    """What became of one part: its ETag, or why its bytes cannot be had."""

    claim: Claim
    index: int
    etag: str = ""
    torn: str | None = None


class PartsLane:
    """Consumer group ``upload-parts.<site>``. One batch:

    0. own:       when the assignment changed, a new epoch for each partition of the batch.
    1. claim:     one catalog transaction: a claim for each content whose part 0 is here and that nobody has or sends,
                  and the rows of the parts. Parts without an open claim are dropped: their emission was torn. A claim
                  whose content comes again in other cuts is gone. A crash leaves claims in state uploading; whoever
                  reads the records again takes them over.
    2. open:      a multipart upload for each claim that has none: an unfinished one of its key, else a new one; its id
                  is saved as the holder of the claim. A crash before the save leaves an upload that this step finds.
    3. reconcile: of a claim that was taken over, ask S3 what it has; that is what the catalog then says. An upload that
                  is gone was completed (HEAD shows the object) or is begun again. A crash leaves either answer.
    4. send:      read, check and PUT each part that S3 does not have. A crash leaves parts that step 3 finds.
    5. mark:      one catalog transaction, as the holder: parts that were sent have their ETags, torn contents are gone.
                  A crash leaves the truth; the rest follows from it.
    6. abandon:   abort the uploads of contents that are gone. A crash leaves the id in the row: done when read again.
    7. complete:  complete each upload of which every part is there. A crash leaves an object that HEAD shows.
    8. settle:    one catalog transaction, as the holder: completed contents are stored. A crash leaves the truth
                  without its outputs.
    9. outputs:   read the state of every content of the batch: stored emits ObjectStored; no generation left asks the
                  agent again for every path that waits for it.
    (2, 3, 6 and 7 are MultipartUploads'.)
    """

    def __init__(self, config: UploadConfig, catalog: Catalog, store: ObjectStore) -> None:
        self._config = config
        self._catalog = catalog
        self._store = store
        self._topic = fs_parts(config.site)
        self._ownership = Ownership(catalog, self._topic)
        self._transfers = Transfers("parts", at_once=config.part_transfers, bytes_at_once=config.bytes_in_flight)
        self._uploads = MultipartUploads(catalog, store)

    @property
    def name(self) -> str:
        return f"upload-parts.{self._config.site}"

    @property
    def reads(self) -> tuple[Topic, ...]:
        return (self._topic,)

    @property
    def writes(self) -> tuple[Topic, ...]:
        return (SYNC_OBJECTS_LARGE, SYNC_REQUESTS)

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(records=self._config.parts_batch_records)

    def process(self, batch: Batch) -> Sequence[Output]:
        if not batch.is_current():
            return ()
        try:
            return self._process(batch)
        except Exception:
            self._uploads.doubt()
            raise

    def _process(self, batch: Batch) -> Sequence[Output]:
        self.own(batch)
        inputs = [checked(one) for one in batch.inputs]
        work = self.claim(inputs)
        claims, completed = self._uploads.reconcile(self._uploads.open(work.claims))
        sent, failure = self.send(batch, claims, work)
        self.mark(sent)
        self._uploads.abandon({one.record.hash for one in inputs})
        if failure is not None:
            raise failure
        lost = {one.claim for one in sent if one.torn is not None}
        self.settle([*completed, *self._uploads.complete([one for one in claims if one not in lost])])
        return self.outputs(inputs, work.sources)

    def own(self, batch: Batch) -> None:
        """Step 0."""
        self._ownership.take(batch)

    def claim(self, inputs: Sequence[PartInput]) -> Work:
        """Step 1. Raises Fenced."""
        partition_of = {one.record.hash: one.partition for one in inputs}
        hashes = partition_of.keys()
        with self._catalog.transaction() as transaction:
            owners = self._ownership.hold(transaction, {one.partition for one in inputs})
            sources = files.sources(transaction, {one.record.source for one in inputs})
            first = {one.record.hash: one.record for one in inputs if one.record.index == 0}
            resumed = objects.take_over(transaction, owners, hashes)
            superseded = cut_otherwise(resumed, first, parts.first_parts(transaction, resumed))
            lost = objects.mark_gone(transaction, superseded, ["its parts were cut anew"] * len(superseded))
            fresh, gained = objects.claim(
                transaction,
                [
                    Wanted(one.hash, one.size, one.count, one.source, self._ownership.owner(partition_of[one.hash]))
                    for one in first.values()
                    if of_present_owner(one, sources)
                ],
            )
            claims = {one.hash: one for one in [*resumed, *fresh] if one not in superseded}
            rows = belonging(inputs, claims, opened_here={one.hash for one in fresh})
            parts.add_parts(transaction, rows)
            counters.add(transaction, counters.total(lost, gained))
        metrics.UPLOAD_SKIPPED_OBJECTS.labels(LANE).inc(len(inputs) - len(rows))
        places = {one.record.hash: one.record for one in inputs}
        return Work(tuple(claims.values()), places, sources)

    def send(
        self, batch: Batch, claims: Sequence[Claim], work: Work
    ) -> tuple[tuple[SentPart, ...], HeadwaterError | None]:
        """Step 4. Returns what was done, and what stopped the rest."""
        with self._catalog.transaction() as transaction:
            missing = parts.parts_of(transaction, [(one.hash, one.generation) for one in claims], missing=True)
        todo = [(one, part) for one in claims for part in missing[one.hash, one.generation]]
        spoiled: dict[bytes, str] = {}
        with Roots(self._config.roots, work.sources) as roots, ExitStack() as open_files:
            if todo:
                roots.open_all({work.places[claim.hash].source for claim, _ in todo})
            descriptors = {
                content: self._opened(open_files, roots, work.places[content], spoiled)
                for content in {claim.hash for claim, _ in todo}
            }
            finished = self._transfers.run(
                todo,
                lambda one: self._send_part(*one, work.places[one[0].hash], descriptors[one[0].hash], spoiled),
                size=lambda one: one[1].length,
                go_on=batch.is_current,
            )
        return finished.results, finished.failure

    def _opened(self, open_files: ExitStack, roots: Roots, record: FilePart, spoiled: dict[bytes, str]) -> int:
        """One descriptor for all parts of a content: the record's file, or else another path that has the content (it
        may have been renamed meanwhile). One that cannot be had is spoiled (and -1, which nobody reads).
        """
        first = Place(record.source, record.path)
        try:
            return open_files.enter_context(roots.file(*first))
        except Torn as error:
            reason = error.happened
        for place in places_elsewhere(self._catalog, roots, record.hash):
            try:
                return open_files.enter_context(roots.file(*place))
            except Torn:
                continue
        spoiled[record.hash] = reason
        return -1

    def _send_part(
        self, claim: Claim, part: Part, place: FilePart, descriptor: int, spoiled: dict[bytes, str]
    ) -> SentPart:
        """One part; once a part of a content is torn (``spoiled``), no more of that content is sent."""
        begun = time.monotonic()
        data = None
        if claim.hash not in spoiled:
            data = read_exactly(descriptor, part.first_byte, part.length, expected=part.part_hash)
        if data is None:
            error = torn(place.source, place.path, f"part {part.index} has other bytes")
            return SentPart(claim, part.index, torn=spoiled.setdefault(claim.hash, error.happened))
        assert claim.upload_id is not None
        try:
            etag = self._store.upload_part(claim.key, claim.upload_id, part.index + 1, data)
        except NotFound as gone:
            raise ended(claim, f"Send part {part.index} of {claim.key}.") from gone
        metrics.UPLOAD_SECONDS.labels(LANE).observe(time.monotonic() - begun)
        metrics.UPLOAD_OBJECTS.labels(LANE, "sent").inc()
        metrics.UPLOAD_BYTES.labels(LANE).inc(part.length)
        return SentPart(claim, part.index, etag)

    def mark(self, sent: Sequence[SentPart]) -> None:
        """Step 5. Raises Fenced."""
        if not sent:
            return
        bad = {one.claim: one.torn for one in sent if one.torn is not None}
        etags: dict[Claim, dict[int, str]] = defaultdict(dict)
        for one in sent:
            if one.claim not in bad:
                etags[one.claim][one.index] = one.etag
        with self._catalog.transaction() as transaction:
            parts.hold_claims(transaction, {one.claim for one in sent})
            for claim, by_index in etags.items():
                parts.mark_sent(transaction, claim, by_index)
            counters.add(transaction, objects.mark_gone(transaction, list(bad), list(bad.values())))
        for claim, reason in bad.items():
            metrics.UPLOAD_OBJECTS.labels(LANE, "torn").inc()
            log.warning("object.torn", hash=claim.hash.hex(), generation=claim.generation, reason=reason)

    def settle(self, completed: Sequence[Claim]) -> None:
        """Step 8. Raises Fenced."""
        if not completed:
            return
        with self._catalog.transaction() as transaction:
            counters.add(transaction, objects.mark_stored(transaction, completed))

    def outputs(self, inputs: Sequence[PartInput], sources: Mapping[str, SourceRow]) -> Sequence[Output]:
        """Step 9. The path of a record is asked for too: the lane of changes may not have recorded it yet."""
        causes = {one.record.hash: one.cause for one in inputs}
        with self._catalog.transaction() as transaction:
            found = objects.current(transaction, causes)
            waiting = files.waiting_paths(transaction, causes.keys() - found.keys())
        own = [
            WaitingPath(one.source, one.path, one.epoch, one.seq, one.hash)
            for one in (each.record for each in inputs)
            if one.hash not in found and of_present_owner(one, sources)
        ]
        by_path = {(one.source, one.path): one for one in [*own, *waiting]}
        stored = [
            Output(
                SYNC_OBJECTS_LARGE,
                ObjectStored(
                    hash=one.hash, generation=one.generation, size=one.size, source=one.source, parts=one.parts
                ),
                causes[one.hash],
            )
            for one in found.values()
            if one.state == "stored"
        ]
        return [*stored, *requests_for(by_path.values(), causes)]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        record = dead.record
        if not isinstance(record, FilePart):
            return ()
        waiting = give_up(self._catalog, self._ownership, dead.partition, record, error)
        self._uploads.abandon([record.hash])
        return requests_for(waiting, {one.hash: dead for one in waiting})

    def close(self) -> None:
        self._transfers.close()
