"""Verify: read stored objects back and compare them with the hash that names them.

Reads ``sync.objects`` (whole objects) or ``sync.objects.large`` (objects of parts). Writes ``sync.verified`` and
``sync.requests``. Effect: an object is verified or condemned, once. Safe to repeat: the verdict is a compare-and-set
from stored, and outputs follow from the state that is found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blake3 import blake3

from headwater.connectors.catalog import counters, files, objects, parts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.objects import StoredObject
from headwater.connectors.catalog.parts import Part
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import HeadwaterError, NotFound
from headwater.rules.identity import content_hash
from headwater.schemas.records import ObjectStored, ObjectVerified, RequestReason, Verdict
from headwater.schemas.topics import SYNC_OBJECTS, SYNC_OBJECTS_LARGE, SYNC_REQUESTS, SYNC_VERIFIED, Topic
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.upload.outputs import requests_for
from headwater.streams.upload.records import of_type
from headwater.streams.upload.transfers import Transfers
from headwater.streams.verify.config import MiB, VerifyConfig

log = logs.logger()
MISSING = "the object is not there, or ends early"


def chosen(content: bytes, percent: float) -> bool:
    """Whether a sample of this many percent holds the content: a function of its hash alone."""
    return int.from_bytes(content[:8], "big") < percent / 100 * 2**64


@dataclass(frozen=True, slots=True)
class Judged:
    """``wrong`` says how an object differs from its hash; None: it does not."""

    object: StoredObject
    wrong: str | None


class Verifier:
    """Consumer group ``verify-objects``, or ``verify-large``. One batch:

    1. find:    read the state of each object of the batch. A crash leaves nothing.
    2. examine: read back those that are stored. A crash leaves nothing but the work to do again.
    3. judge:   one catalog transaction: stored to verified or condemned. A crash leaves the verdicts without outputs.
    4. outputs: read the states again: verified and condemned emit ObjectVerified; a condemned content that has no
                other generation asks the agent again for every path that waits for it.
    """

    def __init__(self, config: VerifyConfig, catalog: Catalog, store: ObjectStore, *, large: bool = False) -> None:
        self._config = config
        self._catalog = catalog
        self._store = store
        self._large = large
        for verdict in ("verified", "condemned"):
            metrics.VERIFY_OBJECTS.labels(self.name, verdict)  # from 0: so that an alert sees the first one too
        self._transfers = Transfers("verify", at_once=config.reads, bytes_at_once=config.bytes_in_flight)

    @property
    def name(self) -> str:
        return "verify-large" if self._large else "verify-objects"

    @property
    def reads(self) -> tuple[Topic, ...]:
        return (SYNC_OBJECTS_LARGE if self._large else SYNC_OBJECTS,)

    @property
    def writes(self) -> tuple[Topic, ...]:
        return (SYNC_VERIFIED, SYNC_REQUESTS)

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(records=self._config.large_batch_records if self._large else self._config.batch_records)

    def process(self, batch: Batch) -> Sequence[Output]:
        named = {_named(one): one for one in batch.inputs}
        judged, failure = self.examine(batch, self.find(named))
        self.judge(judged)
        if failure is not None:
            raise failure
        return self.outputs(named)

    def find(self, named: Iterable[tuple[bytes, int]]) -> list[tuple[StoredObject, list[Part]]]:
        """Step 1. The objects that wait for a verdict, with their parts."""
        with self._catalog.transaction() as transaction:
            waiting = [one for one in objects.generations(transaction, named).values() if one.state == "stored"]
            cut = parts.parts_of(transaction, [(one.hash, one.generation) for one in waiting if one.parts])
        return [(one, cut.get((one.hash, one.generation), [])) for one in waiting]

    def examine(
        self, batch: Batch, waiting: Sequence[tuple[StoredObject, list[Part]]]
    ) -> tuple[list[Judged], HeadwaterError | None]:
        """Step 2. Returns the verdicts that were reached, and what stopped the rest."""
        judged: list[Judged] = []
        whole = [one for one, cut in waiting if not cut]
        finished = self._transfers.run(
            whole, self._examine_whole, size=lambda one: min(one.size, 16 * MiB), go_on=batch.is_current
        )
        judged.extend(finished.results)
        failure = finished.failure
        for one, cut in waiting:
            if cut and failure is None and batch.is_current():
                verdict, failure = self._examine_parts(batch, one, cut)
                judged.extend(verdict)
        return judged, failure

    def _examine_whole(self, one: StoredObject) -> Judged:
        begun = time.monotonic()
        wrong = self._hashed(one) if self._reads_back(one) else self._looked_up(one)
        metrics.VERIFY_SECONDS.labels(self.name).observe(time.monotonic() - begun)
        return Judged(one, wrong)

    def _hashed(self, one: StoredObject) -> str | None:
        hasher = blake3()
        try:
            for chunk in self._store.chunks(one.key):
                hasher.update(chunk)
                metrics.VERIFY_BYTES.labels(self.name).inc(len(chunk))
        except NotFound:
            return MISSING
        return None if hasher.digest() == one.hash else "its BLAKE3 is another"

    def _examine_parts(
        self, batch: Batch, one: StoredObject, cut: Sequence[Part]
    ) -> tuple[list[Judged], HeadwaterError | None]:
        """One object of parts: every part's range against the part's hash, in a pool; none after the first mismatch."""
        begun = time.monotonic()
        wrong = self._looked_up(one) or _gap(one, cut)
        if wrong is None and self._reads_back(one):
            mismatch = threading.Event()

            def matches(part: Part) -> Part | None:
                data = self._store.read_range(one.key, part.first_byte, part.length)
                metrics.VERIFY_BYTES.labels(self.name).inc(len(data))
                if content_hash(data) == part.part_hash:
                    return None
                mismatch.set()
                return part

            finished = self._transfers.run(
                cut, matches, size=lambda part: part.length, go_on=lambda: batch.is_current() and not mismatch.is_set()
            )
            bad = next((part for part in finished.results if part is not None), None)
            if isinstance(finished.failure, NotFound):
                wrong = MISSING
            elif bad is not None:
                wrong = f"the BLAKE3 of part {bad.index} (from byte {bad.first_byte}) is another"
            elif finished.failure is not None or len(finished.results) < len(cut):
                return [], finished.failure
        metrics.VERIFY_SECONDS.labels(self.name).observe(time.monotonic() - begun)
        return [Judged(one, wrong)], None

    def judge(self, judged: Sequence[Judged]) -> None:
        """Step 3."""
        if not judged:
            return
        bad = {one.object: one.wrong for one in judged if one.wrong is not None}
        with self._catalog.transaction() as transaction:
            good = [one.object for one in judged if one.wrong is None]
            counters.add(transaction, objects.judge(transaction, good, bad))
        metrics.VERIFY_OBJECTS.labels(self.name, "verified").inc(len(judged) - len(bad))
        metrics.VERIFY_OBJECTS.labels(self.name, "condemned").inc(len(bad))
        for one, wrong in bad.items():
            log.error("object.condemned", hash=one.hash.hex(), generation=one.generation, key=one.key, reason=wrong)

    def outputs(self, named: Mapping[tuple[bytes, int], Input]) -> Sequence[Output]:
        """Step 4."""
        with self._catalog.transaction() as transaction:
            found = objects.generations(transaction, named)
            condemned = {one.hash for one in found.values() if one.state == "condemned"}
            lost = condemned - objects.current(transaction, condemned).keys()
            waiting = files.waiting_paths(transaction, lost)
        verdicts = [
            Output(
                SYNC_VERIFIED,
                ObjectVerified(
                    hash=one.hash,
                    generation=one.generation,
                    size=one.size,
                    verdict=Verdict(one.state),
                    mode=self._config.mode,
                    detail=one.detail,
                ),
                named[one.hash, one.generation],
            )
            for one in found.values()
            if one.state in ("verified", "condemned")
        ]
        causes = {content: cause for (content, _), cause in named.items()}
        return [*verdicts, *requests_for(waiting, causes, RequestReason.condemned)]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:  # noqa: ARG002
        """Nothing to say: the object stays stored, and a version names the paths that wait for its verdict."""
        return ()

    def close(self) -> None:
        self._transfers.close()

    def _reads_back(self, one: StoredObject) -> bool:
        return chosen(one.hash, self._config.sample_percent)

    def _looked_up(self, one: StoredObject) -> str | None:
        head = self._store.head(one.key)
        if head is None:
            return MISSING
        return None if head.size == one.size else f"it has {head.size} bytes instead of {one.size}"


def _named(one: Input) -> tuple[bytes, int]:
    record = of_type(one, ObjectStored)
    return record.hash, record.generation


def _gap(one: StoredObject, cut: Sequence[Part]) -> str | None:
    """What is wrong with parts that do not follow each other from the first to the last byte of their object."""
    end = 0
    for part in cut:
        if part.first_byte != end:
            return f"part {part.index} begins at byte {part.first_byte}, not at {end}"
        end += part.length
    return None if end == one.size else f"its parts end at byte {end}, not at {one.size}"
