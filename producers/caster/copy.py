"""The copy of a sealed cast in S3: a second origin, for when the first one dies.

1. keep      in the catalog, where it will be: whoever removes the cast, or finds it expired, removes what is there
2. send      the parts, each compared with the hashes of its chunks: other bytes than peers expect are never sent
3. complete  the upload
4. look      whether the cast still needs it; one that ended meanwhile has its copy deleted again
5. say       on the log, with an address for ranges that needs no credentials

A crash after 1, 2, 3 or 4 leaves a copy, or parts of one, that no peer knows of and that the catalog names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event
from typing import TypeVar

from blake3 import blake3

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.casts import Cast
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.s3.store import PRESIGNED_SECONDS, ObjectStore
from headwater.observe import logs
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.manifest import ManifestLog
from headwater.producers.caster.source import Source
from headwater.rules.cast.chunks import HASH_BYTES, MIB, Chunks
from headwater.rules.errors import NotFound, Torn, Transient, Unavailable
from headwater.schemas.cast_records import ManifestKind

log = logs.logger()
Answer = TypeVar("Answer")

_SMALLEST_PART, _MOST_PARTS = 8 * MIB, 10_000
"""S3 takes 10,000 parts of 5 MiB and more."""
_MEMORY_BYTES = 256 * MIB
"""What the parts that are on their way may take together."""
_AGAIN_SECONDS = 2.0


def copy_key(epoch: int) -> str:
    return f"casts/{epoch}"


@dataclass(frozen=True, slots=True)
class Parts:
    """A copy's parts, from number 1 on: each of so many chunks, the last one of the rest."""

    chunks: Chunks
    chunks_each: int

    @classmethod
    def of(cls, chunks: Chunks) -> Parts:
        return cls(chunks, max(-(-_SMALLEST_PART // chunks.chunk_bytes), -(-chunks.count // _MOST_PARTS)))

    @property
    def part_bytes(self) -> int:
        return self.chunks_each * self.chunks.chunk_bytes

    @property
    def numbers(self) -> range:
        return range(1, -(-self.chunks.count // self.chunks_each) + 1)

    def chunks_of(self, number: int) -> range:
        first = (number - 1) * self.chunks_each
        return range(first, min(first + self.chunks_each, self.chunks.count))


class Copy:
    """Made and run by one thread; ``stop``, ``trouble`` and ``sent`` (bytes) by any."""

    def __init__(
        self,
        config: CasterConfig,
        kafka: Kafka,
        catalog: Catalog,
        store: ObjectStore,
        source: Source,
        cast: Cast,
        hashes: bytes,
    ) -> None:
        """``cast`` is sealed, and ``hashes`` are those of its chunks."""
        self.trouble = ""
        self.sent = 0
        self._config = config
        self._kafka = kafka
        self._catalog = catalog
        self._store = store
        self._source = source
        self._cast = cast
        self._hashes = hashes
        self._stopping = Event()
        self._parts = Parts.of(Chunks(cast.size, cast.chunk_bytes))
        self._key = copy_key(cast.epoch)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Steps 1 to 5; waits while S3, the catalog or the log is away. An empty file needs no copy.

        Raises Torn where the source changed, Refused, and Unavailable where it was stopped.
        """
        if not self._cast.size:
            return
        self._patiently(self.keep)
        upload = self._patiently(lambda: self._store.create_multipart(self._key))
        etags = self.send(upload)
        self._patiently(lambda: self.complete(upload, etags))
        if self._patiently(self.look):
            self.say()

    def keep(self) -> None:
        """Step 1."""
        with self._catalog.transaction() as transaction:
            casts.keep_copy(transaction, self._cast.epoch, self._key)

    def send(self, upload: str) -> dict[int, str]:
        """Step 2: the ETags by number."""
        threads = max(1, min(self._config.copy_threads, _MEMORY_BYTES // self._parts.part_bytes))
        with ThreadPoolExecutor(threads, "copy") as pool:
            sending = {number: pool.submit(self._send_part, upload, number) for number in self._parts.numbers}
            try:
                return {number: sent.result() for number, sent in sending.items()}
            except BaseException:
                self._stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def complete(self, upload: str, etags: dict[int, str]) -> None:
        """Step 3; an upload that is gone was completed by an earlier try, if the whole object is there."""
        try:
            self._store.complete_multipart(self._key, upload, etags)
        except NotFound:
            head = self._store.head(self._key)
            if head is None or head.size != self._cast.size:
                raise

    def look(self) -> bool:
        """Step 4: whether the copy is wanted."""
        with self._catalog.transaction() as transaction:
            cast = casts.by_epoch(transaction, self._cast.epoch)
        if cast.lives and cast.copy_key == self._key:
            return True
        drop_copies(self._store, self._catalog, [cast])
        return False

    def say(self) -> None:
        """Step 5."""
        seconds = (self._cast.expires_at - datetime.now(UTC)).total_seconds()
        until = "until the cast expires" if seconds <= PRESIGNED_SECONDS else "for 7 days, the most that S3 allows"
        manifests = ManifestLog(self._kafka, stop=self._stopping)
        manifests.say(
            self._cast.name,
            self._cast.epoch,
            ManifestKind.copied,
            reason=f"a copy can be read {until}",
            url=self._store.presigned(self._key, seconds),
        )
        manifests.settle()

    def _send_part(self, upload: str, number: int) -> str:
        data = self._read(self._parts.chunks_of(number))
        etag = self._patiently(lambda: self._store.upload_part(self._key, upload, number, data))
        self.sent += len(data)
        return etag

    def _read(self, chunks: range) -> bytes:
        """The chunks' bytes. Raises Torn where they are no longer those that were hashed."""
        pieces = []
        for chunk in chunks:
            start, length = self._parts.chunks.span(chunk)
            piece = _read_at(self._source.descriptor, start, length)
            if blake3(piece).digest() != self._hashes[chunk * HASH_BYTES : (chunk + 1) * HASH_BYTES]:
                raise Torn(
                    f"the source changed after it was hashed, in chunk {chunk}.",
                    asked=f"A copy of cast {self._cast.name} was being sent to S3.",
                    kept="No peer takes the changed bytes for those that were cast.",
                    chunk=chunk,
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        while not self._stopping.is_set():
            try:
                answer = ask()
            except Transient as error:
                if not self.trouble:
                    log.warning("copy.waits", epoch=self._cast.epoch, reason=error.happened)
                self.trouble = error.happened
                self._stopping.wait(_AGAIN_SECONDS)
            else:
                self.trouble = ""
                return answer
        raise Unavailable(
            "the copy was given up.",
            asked=f"A copy of cast {self._cast.name} was being sent to S3.",
            kept="The cast goes on without it.",
            advice="`headwater cast rm` removes what was sent of it.",
        )


def drop_copies(store: ObjectStore, catalog: Catalog, of: Sequence[Cast]) -> int:
    """Remove the copies of casts, finished or not, and then their keys from the catalog; how many there were."""
    dropped = [cast for cast in of if cast.copy_key is not None]
    for cast in dropped:
        assert cast.copy_key is not None
        for upload in store.find_multiparts(cast.copy_key):
            store.abort_multipart(cast.copy_key, upload)
        store.delete(cast.copy_key)
        with catalog.transaction() as transaction:
            casts.keep_copy(transaction, cast.epoch, None)
    return len(dropped)


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    pieces = []
    while length and (piece := os.pread(descriptor, length, start)):
        pieces.append(piece)
        start, length = start + len(piece), length - len(piece)
    return b"".join(pieces)
