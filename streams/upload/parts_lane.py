"""The lane of parts: content above 64 MiB is sent part by part into one multipart upload.

Reads ``fs.parts.<site>``. Writes ``sync.objects.large`` and ``sync.requests``. Effect: one stored object per content.
Safe to repeat: a part that the catalog or ListParts shows as finished is not sent again, and outputs follow from the
record and the state that is found. All parts of a content are in one input partition, so one member owns its upload.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass

from headwater.connectors.catalog import counters, files, objects, parts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.files import SourceRow, WaitingPath
from headwater.connectors.catalog.objects import Claim, Wanted
from headwater.connectors.catalog.parts import Part
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError, NotFound
from headwater.schemas.records import FilePart, ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS_LARGE, SYNC_REQUESTS, Topic, fs_parts
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.dead_letters import give_up, record_of
from headwater.streams.upload.deferred import RETRY_SECONDS, Deferred
from headwater.streams.upload.emissions import PartInput, belonging, checked, cut_otherwise, of_present_owner
from headwater.streams.upload.multipart_uploads import MultipartUploads, ended
from headwater.streams.upload.orphans import Orphans
from headwater.streams.upload.outputs import requests_for
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.pieces import Work
from headwater.streams.upload.places import Opened, Place, opened
from headwater.streams.upload.reading import Away, Roots, read_exactly, torn
from headwater.streams.upload.transfers import Transfers

log = logs.logger()
LANE = "parts"

_DEFERRED = 4
"""Contents that were put off and are taken into one batch: each may be large, and offsets wait for the batch."""


@dataclass(frozen=True, slots=True)
class SentPart:
    """What became of one part: its ETag, or why its bytes cannot be had, for good (``torn``) or now (``away``)."""

    claim: Claim
    index: int
    etag: str = ""
    torn: str | None = None
    away: str | None = None


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
    4. send:      read, check and PUT each part that S3 does not have, also of contents that were put off before
                  (deferred.py). A crash leaves parts that step 3 finds.
    5. mark:      catalog transactions, as the holder: parts that were sent have their ETags, torn contents are gone;
                  those whose root is away are put off. A crash leaves the truth; the rest follows from it.
    6. abandon:   abort the uploads of contents that are gone. A crash leaves the id in the row: done when read again.
    7. complete:  complete each upload of which every part is there. A crash leaves an object that HEAD shows.
    8. settle:    one catalog transaction, as the holder: completed contents are stored. A crash leaves the truth
                  without its outputs.
    9. outputs:   read the state of every content of the batch: stored emits ObjectStored; no generation left asks the
                  agent again for every path that waits for it.
    (2, 3, 6 and 7 are MultipartUploads'. Now and then Orphans' sweep follows.)
    """

    def __init__(self, config: UploadConfig, catalog: Catalog, store: ObjectStore) -> None:
        self._config = config
        self._catalog = catalog
        self._store = store
        self._topic = fs_parts(config.site)
        self._ownership = Ownership(catalog, self._topic)
        self._transfers = Transfers("parts", at_once=config.part_transfers, bytes_at_once=config.bytes_in_flight)
        self._uploads = MultipartUploads(catalog, store)
        self._deferred = Deferred(catalog, self._ownership, self._topic, config.roots, lane=LANE, limit=_DEFERRED)
        self._orphans = Orphans(catalog, store, self._ownership, self._topic, age_seconds=config.orphan_age_seconds)

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
        return BatchLimits(records=self._config.parts_batch_records, idle_seconds=RETRY_SECONDS)

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
        resumed = self._deferred.resume(batch)
        work = self.claim(inputs).joined(resumed)
        claims, completed = self._uploads.reconcile(self._uploads.open(work.claims))
        sent, failure = self.send(batch, claims, work)
        self.mark(sent)
        self._uploads.abandon({one.record.hash for one in inputs} | resumed.hashes)
        if failure is not None:
            raise failure
        lost = {one.claim for one in sent if one.torn is not None or one.away is not None}
        self.settle([*completed, *self._uploads.complete([one for one in claims if one not in lost])])
        outputs = self.outputs(inputs, work.sources, resumed.hashes)
        self._orphans.sweep(batch)
        return outputs

    def own(self, batch: Batch) -> None:
        """Step 0."""
        self._ownership.take(batch)

    def claim(self, inputs: Sequence[PartInput]) -> Work:
        """Step 1. Raises Fenced."""
        if not inputs:
            return Work((), {}, {})
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
        places = {one.record.hash: [Place(one.record.source, one.record.path)] for one in inputs}
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
            roots.open_all(place.source for claim, _ in todo for place in work.places[claim.hash])
            files_of = {
                claim.hash: opened(self._catalog, roots, open_files, claim, work.places[claim.hash])
                for claim in {claim for claim, _ in todo}
            }
            finished = self._transfers.run(
                todo,
                lambda one: self._send_part(*one, files_of[one[0].hash], spoiled),
                size=lambda one: one[1].length,
                go_on=batch.is_current,
            )
        return finished.results, finished.failure

    def _send_part(self, claim: Claim, part: Part, file: Opened, spoiled: dict[bytes, str]) -> SentPart:
        """One part; once a part of a content is torn (``spoiled``), no more of that content is sent."""
        begun = time.monotonic()
        data = None
        if file.away is not None:
            return SentPart(claim, part.index, away=file.away)
        if file.torn is None and claim.hash not in spoiled:
            try:
                data = read_exactly(file.descriptor, part.first_byte, part.length, expected=part.part_hash)
            except Away as error:
                return SentPart(claim, part.index, away=error.happened)
        if data is None:
            reason = file.torn or torn(*file.place, f"part {part.index} has other bytes").happened
            return SentPart(claim, part.index, torn=spoiled.setdefault(claim.hash, reason))
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
        away = {one.claim: one.away for one in sent if one.away is not None and one.claim not in bad}
        sent = [one for one in sent if one.away is None]
        etags: dict[Claim, dict[int, str]] = defaultdict(dict)
        for one in sent:
            if one.claim not in bad:
                etags[one.claim][one.index] = one.etag
        with self._catalog.transaction() as transaction:
            parts.hold_claims(transaction, {one.claim for one in sent})
            for claim, by_index in etags.items():
                parts.mark_sent(transaction, claim, by_index)
            counters.add(transaction, objects.mark_gone(transaction, list(bad), list(bad.values())))
        self._deferred.put_off(away)
        for claim, reason in bad.items():
            metrics.UPLOAD_OBJECTS.labels(LANE, "torn").inc()
            log.warning("object.torn", hash=claim.hash.hex(), generation=claim.generation, reason=reason)

    def settle(self, completed: Sequence[Claim]) -> None:
        """Step 8. Raises Fenced."""
        if not completed:
            return
        with self._catalog.transaction() as transaction:
            counters.add(transaction, objects.mark_stored(transaction, completed))

    def outputs(
        self, inputs: Sequence[PartInput], sources: Mapping[str, SourceRow], resumed: Set[bytes] = frozenset()
    ) -> Sequence[Output]:
        """Step 9. The path of a record is asked for too: the lane of changes may not have recorded it yet.
        ``resumed``: contents without a record in the batch."""
        causes = {one.record.hash: one.cause for one in inputs}
        hashes = causes.keys() | resumed
        if not hashes:
            return []
        with self._catalog.transaction() as transaction:
            found = objects.current(transaction, hashes)
            waiting = files.waiting_paths(transaction, hashes - found.keys())
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
                causes.get(one.hash),
            )
            for one in found.values()
            if one.state == "stored"
        ]
        return [*stored, *requests_for(by_path.values(), causes)]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        record = record_of(dead)
        if not isinstance(record, FilePart):  # its content never gets whole, and a version names the paths that wait
            return ()
        waiting = give_up(self._catalog, self._ownership, dead.partition, record, error)
        self._uploads.abandon([record.hash])
        return requests_for(waiting, {one.hash: dead for one in waiting})

    def close(self) -> None:
        self._transfers.close()
