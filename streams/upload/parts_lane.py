"""The lane of parts: content above 64 MiB is sent part by part into one multipart upload.

Reads ``fs.parts.<site>``. Writes ``sync.objects.large`` and ``sync.requests``. Effect: one stored object per content.
Safe to repeat: a part that the catalog or ListParts shows as finished is not sent again, and outputs follow from the
record and the state that is found. All parts of a content are in one input partition, so one member owns its upload.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from headwater.connectors.catalog import counters, files, objects, parts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.files import SourceRow, WaitingPath
from headwater.connectors.catalog.objects import Claim, Wanted
from headwater.connectors.catalog.parts import Part
from headwater.connectors.s3 import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import BadRecord, HeadwaterError, NotFound, Torn, Unclear
from headwater.rules.identity import object_key
from headwater.schemas.records import FilePart, ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS_LARGE, SYNC_REQUESTS, Topic, fs_parts
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.dead_letters import give_up
from headwater.streams.upload.outputs import requests_for
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.reading import Roots, check_path, read_exactly, torn
from headwater.streams.upload.transfers import Transfers

log = logs.logger()
LANE = "parts"


@dataclass(frozen=True, slots=True)
class PartInput:
    """One record of the batch and the partition that it came from."""

    partition: int
    record: FilePart


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
                  and the rows of the parts. Parts without an open claim are dropped: their emission was torn.
                  A crash leaves claims in state uploading; whoever reads the records again takes them over.
    2. open:      a multipart upload for each claim that has none: an unfinished one of its key, else a new one; its id
                  is saved as the holder of the claim. A crash before the save leaves an upload that this step finds.
    3. reconcile: of a claim that was taken over, ask S3 what it has; that is what the catalog then says. An upload that
                  is gone was completed (HEAD shows the object) or is begun again. A crash leaves either answer.
    4. send:      read, check and PUT each part that S3 does not have. A crash leaves parts that step 3 finds.
    5. mark:      one catalog transaction, as the holder: parts that were sent have their ETags, torn contents are gone.
                  A crash leaves the truth; the rest follows from it.
    6. abandon:   abort the uploads of contents that are gone. A crash leaves the id in the row: done when read again.
    7. complete:  complete each upload of which every part is there. A crash leaves an object that HEAD shows.
    8. settle:    one catalog transaction, as the holder: completed contents are stored.
    9. outputs:   read the state of every content of the batch: stored emits ObjectStored; no generation left asks the
                  agent again for every path that waits for it.
    """

    def __init__(self, config: UploadConfig, catalog: Catalog, store: ObjectStore) -> None:
        self._config = config
        self._catalog = catalog
        self._store = store
        self._topic = fs_parts(config.site)
        self._ownership = Ownership(catalog, self._topic)
        self._transfers = Transfers("parts", at_once=config.part_transfers, bytes_at_once=config.bytes_in_flight)
        self._reconciled: set[Claim] = set()

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
        except HeadwaterError:
            self._reconciled.clear()  # what was under way may or may not have arrived
            raise

    def _process(self, batch: Batch) -> Sequence[Output]:
        self.own(batch)
        inputs = [_checked(one) for one in batch.inputs]
        work = self.claim(inputs)
        claims, completed = self.reconcile(self.open(work.claims))
        sent, failure = self.send(batch, claims, work)
        self.mark(sent)
        self.abandon(inputs)
        if failure is not None:
            raise failure
        lost = {one.claim for one in sent if one.torn is not None}
        self.settle([*completed, *self.complete([one for one in claims if one not in lost])])
        return self.outputs(inputs, work.sources)

    def own(self, batch: Batch) -> None:
        """Step 0."""
        self._ownership.take(batch)

    def claim(self, inputs: Sequence[PartInput]) -> Work:
        """Step 1. Raises Fenced."""
        hashes = {one.record.hash for one in inputs}
        with self._catalog.transaction() as transaction:
            owners = self._ownership.hold(transaction, {one.partition for one in inputs})
            sources = files.sources(transaction, {one.record.source for one in inputs})
            resumed = objects.take_over(transaction, owners, hashes)
            first = {
                one.record.hash: one
                for one in inputs
                if one.record.index == 0 and _of_present_owner(one.record, sources)
            }
            fresh, tally = objects.claim(
                transaction,
                [
                    Wanted(content, one.record.size, one.record.count, one.record.source, owner)
                    for content, one in first.items()
                    for owner in [self._ownership.owner(one.partition)]
                ],
            )
            claims = {one.hash: one for one in [*resumed, *fresh]}
            opened_here = {one.hash for one in fresh}
            belonging = _belonging(inputs, claims, opened_here)
            parts.add_parts(transaction, belonging)
            counters.add(transaction, tally)
        metrics.UPLOAD_SKIPPED_OBJECTS.labels(LANE).inc(len(inputs) - len(belonging))
        places = {one.record.hash: one.record for one in inputs}
        return Work(tuple(claims.values()), places, sources)

    def open(self, claims: Sequence[Claim]) -> list[Claim]:
        """Step 2. Returns the claims with their upload ids. Raises Fenced."""
        opened: list[Claim] = []
        for one in claims:
            if one.upload_id is None:
                unfinished = self._store.find_multiparts(one.key) if one.resumed else []
                upload_id = unfinished[0] if unfinished else self._store.create_multipart(one.key)
                self._save_upload(one, upload_id)
                one = replace(one, upload_id=upload_id)
            opened.append(one)
        return opened

    def _save_upload(self, claim: Claim, upload_id: str) -> None:
        with self._catalog.transaction() as transaction:
            parts.hold_claims(transaction, [claim])
            parts.save_upload(transaction, claim, upload_id)

    def reconcile(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Step 3. Returns the claims to go on with, and those whose object is complete already. Raises Fenced."""
        unfinished: list[Claim] = []
        completed: list[Claim] = []
        for one in claims:
            if not one.resumed or one in self._reconciled:
                unfinished.append(one)
                continue
            assert one.upload_id is not None
            try:
                listed = self._store.list_parts(one.key, one.upload_id)
            except NotFound:
                if self._is_there(one):
                    completed.append(one)
                    continue
                one = replace(one, upload_id=self._store.create_multipart(one.key))
                self._save_upload(one, one.upload_id or "")
                listed = {}
            with self._catalog.transaction() as transaction:
                parts.hold_claims(transaction, [one])
                known = parts.parts_of(transaction, [(one.hash, one.generation)])[one.hash, one.generation]
                etags = {
                    part.index: listed[part.index + 1].etag
                    for part in known
                    if part.index + 1 in listed and listed[part.index + 1].size == part.length
                }
                parts.forget_sent(transaction, one)
                parts.mark_sent(transaction, one, etags)
            metrics.UPLOAD_OBJECTS.labels(LANE, "found").inc(len(etags))
            unfinished.append(one)
        self._reconciled.update(replace(one, resumed=True) for one in unfinished)
        return unfinished, completed

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
                content: _opened(open_files, roots, work.places[content], spoiled)
                for content in {claim.hash for claim, _ in todo}
            }
            finished = self._transfers.run(
                todo,
                lambda one: self._send_part(*one, work.places[one[0].hash], descriptors[one[0].hash], spoiled),
                size=lambda one: one[1].length,
                go_on=batch.is_current,
            )
        return finished.results, finished.failure

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
            raise _ended(claim, f"Send part {part.index} of {claim.key}.") from gone
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

    def abandon(self, inputs: Sequence[PartInput]) -> None:
        """Step 6. No epoch is needed: a generation that is gone never comes back."""
        with self._catalog.transaction() as transaction:
            abandoned = parts.abandoned_uploads(transaction, {one.record.hash for one in inputs})
        if not abandoned:
            return
        for content, generation, upload_id in abandoned:
            self._store.abort_multipart(object_key(content, generation), upload_id)
        with self._catalog.transaction() as transaction:
            parts.forget_uploads(transaction, abandoned)

    def complete(self, claims: Sequence[Claim]) -> list[Claim]:
        """Step 7. Returns the claims whose object is there."""
        with self._catalog.transaction() as transaction:
            ready = parts.finished(transaction, claims)
            known = parts.parts_of(transaction, [(one.hash, one.generation) for one in ready])
        for one in ready:
            etags = {part.index + 1: part.etag or "" for part in known[one.hash, one.generation]}
            assert one.upload_id is not None
            try:
                self._store.complete_multipart(one.key, one.upload_id, etags)
            except HeadwaterError as error:
                if self._is_there(one):
                    continue
                if isinstance(error, NotFound):
                    raise _ended(one, f"Complete {one.key}.") from error
                raise
        return ready

    def settle(self, completed: Sequence[Claim]) -> None:
        """Step 8. Raises Fenced."""
        if not completed:
            return
        with self._catalog.transaction() as transaction:
            counters.add(transaction, objects.mark_stored(transaction, completed))
        self._reconciled -= {replace(one, resumed=True) for one in completed}

    def outputs(self, inputs: Sequence[PartInput], sources: Mapping[str, SourceRow]) -> Sequence[Output]:
        """Step 9. The path of a record is asked for too: the lane of changes may not have recorded it yet."""
        hashes = {one.record.hash for one in inputs}
        with self._catalog.transaction() as transaction:
            found = objects.current(transaction, hashes)
            waiting = files.waiting_paths(transaction, hashes - found.keys())
        own = [
            WaitingPath(one.source, one.path, one.epoch, one.seq, one.hash)
            for one in (each.record for each in inputs)
            if one.hash not in found and _of_present_owner(one, sources)
        ]
        by_path = {(one.source, one.path): one for one in [*own, *waiting]}
        stored = [
            ObjectStored(hash=one.hash, generation=one.generation, size=one.size, source=one.source, parts=one.parts)
            for one in found.values()
            if one.state == "stored"
        ]
        return [*(Output(SYNC_OBJECTS_LARGE, record) for record in stored), *requests_for(by_path.values())]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        record = dead.record
        assert isinstance(record, FilePart)
        waiting = give_up(self._catalog, self._ownership, dead.partition, record, error)
        self.abandon([PartInput(dead.partition, record)])
        return requests_for(waiting)

    def close(self) -> None:
        self._transfers.close()

    def _is_there(self, claim: Claim) -> bool:
        head = self._store.head(claim.key)
        return head is not None and head.size == claim.size


def _checked(one: Input) -> PartInput:
    record = one.record
    assert isinstance(record, FilePart)
    check_path(record.path)
    inside = 0 <= record.offset < record.offset + record.length <= record.size
    if not inside or not 0 <= record.index < record.count:
        raise BadRecord(
            f"part {record.index} of {record.count}, bytes {record.offset} + {record.length}, does not fit into"
            f" {record.size} bytes.",
            asked=f"Send a part of {record.display} of source {record.source}.",
            kept="Nothing was written for it.",
            advice="No agent writes such a part: look at who produced the record (headwater dead show).",
        )
    return PartInput(one.partition, record)


def _of_present_owner(record: FilePart, sources: Mapping[str, SourceRow]) -> bool:
    return record.source in sources and record.epoch >= sources[record.source].epoch


def _belonging(inputs: Iterable[PartInput], claims: Mapping[bytes, Claim], opened_here: set[bytes]) -> list[Part]:
    """The parts of the batch that an open claim waits for. Of a claim that this batch opens, those from part 0 on:
    what stands before it in the log is the rest of an earlier emission, which may have been cut differently.
    """
    reached: set[bytes] = set()
    belonging: list[Part] = []
    for one in (each.record for each in inputs):
        if one.index == 0:
            reached.add(one.hash)
        claim = claims.get(one.hash)
        if claim is None or claim.parts != one.count or (one.hash in opened_here and one.hash not in reached):
            continue
        belonging.append(Part(one.hash, claim.generation, one.index, one.offset, one.length, one.part_hash))
    return belonging


def _opened(open_files: ExitStack, roots: Roots, place: FilePart, spoiled: dict[bytes, str]) -> int:
    """One descriptor for all parts of a content; one that cannot be had is spoiled (and -1, which nobody reads)."""
    try:
        return open_files.enter_context(roots.file(place.source, place.path))
    except Torn as error:
        spoiled[place.hash] = error.happened
        return -1


def _ended(claim: Claim, asked: str) -> Unclear:
    return Unclear(
        f"multipart upload {claim.upload_id} ended behind our back.",
        asked=asked,
        kept="What is finished is looked up and kept.",
        advice="If it repeats: does a lifecycle rule of the bucket abort uploads too early?",
    )
