"""The lane of changes: every change of a site's files is recorded, and content up to 64 MiB is sent whole.

Reads ``fs.changes.<site>``. Writes ``sync.objects`` and ``sync.requests``. Effect: file_versions, paths, exceptions,
checkpoints, and one stored object per content. Safe to repeat: rows are written under the clock of their record,
objects under the hash of their bytes, and outputs follow from the record and the state that is found.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait

from headwater.connectors.catalog import counters, deferred, files, objects
from headwater.connectors.catalog.client import Catalog, Transaction
from headwater.connectors.catalog.objects import Claim, Owner, Wanted
from headwater.connectors.s3.store import ObjectStore, PutOutcome
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError, Torn
from headwater.schemas.records import FileChange, ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS, SYNC_REQUESTS, Topic, fs_changes
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.upload.changes import (
    Change,
    checked,
    checkpoint_of,
    exception_of,
    of_present_owner,
    whole_contents,
)
from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.contents import read_content
from headwater.streams.upload.dead_letters import give_up, name_subject, record_of
from headwater.streams.upload.deferred import RETRY_SECONDS, Deferred, Resumed
from headwater.streams.upload.outputs import requests_for
from headwater.streams.upload.ownership import Ownership
from headwater.streams.upload.pieces import Delivery, Sent, Work
from headwater.streams.upload.places import Place
from headwater.streams.upload.reading import Away, Roots
from headwater.streams.upload.transfers import Transfers

log = logs.logger()
LANE = "files"

_PIECES_UNDER_WAY = 2
"""One that is sent, one that waits behind it: the transfers never run dry while a piece is settled."""


class FilesLane:
    """Consumer group ``upload-files.<site>``. One batch:

    0. own:     when the assignment changed, a new epoch for each partition of the batch. A crash leaves a higher
                epoch, which fences nobody but us.
    1. record:  one catalog transaction: versions, heads, exceptions, checkpoints, counters, and a claim on each content
                that is to be sent. A crash leaves claims in state uploading; whoever reads the records again takes
                them over.
    2. send:    read, check and PUT each claimed content, and contents that were put off before (deferred.py). A crash
                leaves objects that the catalog does not know as stored; whoever takes the claim over finds them with
                HEAD and sends nothing again.
    3. settle:  catalog transactions, as the holder of the claims: sent claims are stored, torn ones gone; those whose
                root is away are put off. A crash leaves the truth without its outputs; they follow from it when the
                records are read again.
    4. outputs: read the state of every content of the batch: stored emits ObjectStored; no generation left asks the
                agent again for every path that waits for it.

    1 to 3 are done piece by piece (decision 151): while one piece is sent, the one before is settled and the next is
    recorded, so that there is always something in flight.
    """

    def __init__(self, config: UploadConfig, catalog: Catalog, store: ObjectStore) -> None:
        self._config = config
        self._catalog = catalog
        self._store = store
        self._topic = fs_changes(config.site)
        self._ownership = Ownership(catalog, self._topic)
        self._transfers = Transfers("upload", at_once=config.transfers, bytes_at_once=config.bytes_in_flight)
        self._senders = ThreadPoolExecutor(_PIECES_UNDER_WAY, thread_name_prefix="send")
        self._deferred = Deferred(
            catalog, self._ownership, self._topic, config.roots, lane=LANE, limit=config.files_batch_records
        )

    @property
    def name(self) -> str:
        return f"upload-files.{self._config.site}"

    @property
    def reads(self) -> tuple[Topic, ...]:
        return (self._topic,)

    @property
    def writes(self) -> tuple[Topic, ...]:
        return (SYNC_OBJECTS, SYNC_REQUESTS)

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(records=self._config.files_batch_records, idle_seconds=RETRY_SECONDS)

    def process(self, batch: Batch) -> Sequence[Output]:
        if not batch.is_current():
            return ()
        self.own(batch)
        changes = [checked(one) for one in batch.inputs]
        resumed = self._deferred.resume(batch)
        self.carry(batch, changes, resumed)
        return self.outputs(changes, resumed.hashes)

    def carry(self, batch: Batch, changes: Sequence[Change], resumed: Resumed) -> None:
        """Steps 1 to 3. Nothing is under way any more when it ends, however it ends. Raises what stopped it."""
        size = self._config.files_piece_records
        under_way: deque[tuple[Work, Future[Delivery]]] = deque()
        failure: HeadwaterError | None = None
        try:
            for start in range(0, max(len(changes), 1), size):
                sending = {claim.hash for work, _ in under_way for claim in work.claims}
                work = self.record(changes[start : start + size], sending)
                if start == 0:
                    work = work.joined(resumed)
                under_way.append((work, self._senders.submit(self.send, batch, work)))
                if len(under_way) == _PIECES_UNDER_WAY:
                    failure = self._settled(under_way.popleft()[1])
                if failure is not None or not batch.is_current():
                    break
            while under_way:
                failure = self._settled(under_way.popleft()[1]) or failure
        finally:
            wait([future for _, future in under_way])
        if failure is not None:
            raise failure

    def _settled(self, delivery: Future[Delivery]) -> HeadwaterError | None:
        """Waits until a piece was sent and settles it; returns what stopped its rest."""
        sent, failure = delivery.result()
        self.settle(sent)
        return failure

    def own(self, batch: Batch) -> None:
        """Step 0."""
        self._ownership.take(batch)

    def record(self, changes: Sequence[Change], sending: Set[bytes] = frozenset()) -> Work:
        """Step 1. ``sending``: contents that an earlier piece has claimed and sends. Raises BadRecord for an unknown
        source, Fenced."""
        if not changes:
            return Work((), {}, {})
        with self._catalog.transaction() as transaction:
            owners = self._ownership.hold(transaction, {change.partition for change in changes})
            sources = files.sources(transaction, {change.record.source for change in changes})
            present = [change for change in changes if of_present_owner(change.record, sources)]
            states = [state for one in present if one.is_state for state in files.states_of(one.record)]
            added = files.add_states(transaction, states)
            tally = files.move_heads(transaction, states)
            files.clear_dead_letters(transaction, states)
            files.note_exceptions(transaction, [exception_of(one) for one in present if one.is_exception])
            claims, claimed = self._claims(transaction, owners, changes, present, sending)
            files.apply_checkpoints(transaction, [checkpoint_of(one) for one in present if one.is_checkpoint])
            counters.add(transaction, counters.total(tally, claimed))
            files.count_uncommitted(transaction, added)
        places: dict[bytes, list[Place]] = defaultdict(list)
        for change in reversed(changes):
            if change.whole is not None:
                places[change.whole].append(Place(change.record.source, change.record.path))
        return Work(tuple(claims), places, sources)

    def _claims(
        self,
        transaction: Transaction,
        owners: Sequence[Owner],
        changes: Sequence[Change],
        present: Sequence[Change],
        sending: Set[bytes],
    ) -> tuple[list[Claim], counters.Tally]:
        """Open claims of our partitions on anything in the batch, and new ones for what the newest states need.

        An open claim is taken over even where its record is no longer the newest of its path: another path may wait
        for it, and nobody else may settle it.
        """
        resumed = objects.take_over(transaction, owners, whole_contents(changes) - sending)
        owner_of = {change.record.key(): self._ownership.owner(change.partition) for change in present}
        needed = files.newest(transaction, [change.record for change in present if change.whole is not None])
        wanted = [
            Wanted(one.hash, one.size, 0, one.source, owner_of[one.key()]) for one in needed if one.hash is not None
        ]
        fresh, tally = objects.claim(transaction, wanted)
        ours = {one.hash for one in (*resumed, *fresh)}
        adopted = deferred.adopt(transaction, [one for one in wanted if one.hash not in ours])
        claims = [*resumed, *fresh, *adopted]
        _count_skipped(needed, claims)
        return claims, tally

    def send(self, batch: Batch, work: Work) -> Delivery:
        """Step 2. Returns what was done, and what stopped the rest."""
        with Roots(self._config.roots, work.sources) as roots:
            roots.open_all(place.source for claim in work.claims for place in work.places[claim.hash])
            finished = self._transfers.run(
                work.claims,
                lambda claim: self._send_one(roots, claim, work.places[claim.hash]),
                size=lambda claim: claim.size,
                go_on=batch.is_current,
            )
        return finished.results, finished.failure

    def _send_one(self, roots: Roots, claim: Claim, places: Sequence[Place]) -> Sent:
        if claim.resumed and (head := self._store.head(claim.key)) and head.size == claim.size:
            metrics.UPLOAD_OBJECTS.labels(LANE, "found").inc()
            return Sent(claim)
        begun = time.monotonic()
        try:
            data = read_content(self._catalog, roots, claim, places)
        except Away as error:
            metrics.UPLOAD_OBJECTS.labels(LANE, "deferred").inc()
            return Sent(claim, away=error.happened)
        except Torn as error:
            metrics.UPLOAD_OBJECTS.labels(LANE, "torn").inc()
            log.warning("object.torn", hash=claim.hash.hex(), generation=claim.generation, reason=error.happened)
            return Sent(claim, torn=error.happened)
        outcome = self._store.put_whole(claim.key, data)
        metrics.UPLOAD_SECONDS.labels(LANE).observe(time.monotonic() - begun)
        if outcome is PutOutcome.stored:
            metrics.UPLOAD_OBJECTS.labels(LANE, "sent").inc()
            metrics.UPLOAD_BYTES.labels(LANE).inc(claim.size)
        else:
            metrics.UPLOAD_OBJECTS.labels(LANE, "found").inc()
        return Sent(claim)

    def settle(self, sent: Sequence[Sent]) -> None:
        """Step 3. Raises Fenced."""
        self._deferred.put_off({one.claim: one.away for one in sent if one.away is not None})
        sent = [one for one in sent if one.away is None]
        if not sent:
            return
        bad = {one.claim: one.torn for one in sent if one.torn is not None}
        with self._catalog.transaction() as transaction:
            stored = objects.mark_stored(transaction, [one.claim for one in sent if one.torn is None])
            gone = objects.mark_gone(transaction, list(bad), list(bad.values()))
            counters.add(transaction, counters.total(stored, gone))

    def outputs(self, changes: Sequence[Change], resumed: Set[bytes] = frozenset()) -> Sequence[Output]:
        """Step 4. ``resumed``: contents without a record in the batch."""
        causes = {change.whole: change.cause for change in changes if change.whole is not None}
        hashes = causes.keys() | resumed
        if not hashes:
            return []
        with self._catalog.transaction() as transaction:
            found = objects.current(transaction, hashes)
            waiting = files.waiting_paths(transaction, hashes - found.keys())
        stored = [
            Output(
                SYNC_OBJECTS,
                ObjectStored(hash=one.hash, generation=one.generation, size=one.size, source=one.source),
                causes.get(one.hash),
            )
            for one in found.values()
            if one.state == "stored"
        ]
        return [*stored, *requests_for(waiting, causes)]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        record = record_of(dead)
        if not isinstance(record, FileChange):
            name_subject(self._catalog, dead, error)
            return ()
        waiting = give_up(self._catalog, self._ownership, dead.partition, record, error)
        return requests_for(waiting, {one.hash: dead for one in waiting})

    def close(self) -> None:
        self._senders.shutdown()
        self._transfers.close()


def _count_skipped(needed: Sequence[FileChange], claims: Sequence[Claim]) -> None:
    to_send = {claim.hash for claim in claims}
    for one in needed:
        if one.hash in to_send:
            to_send.remove(one.hash)
        else:
            metrics.UPLOAD_SKIPPED_OBJECTS.labels(LANE).inc()
            metrics.UPLOAD_SKIPPED_BYTES.labels(LANE).inc(one.size)
