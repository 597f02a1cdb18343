"""One cast from its announcement until everybody has it: hashed, copied and served in threads, and watched from here.

The origin serves while this runs. It ends when every target has the file; when the cast expires; when a newer cast of
the name replaces it, or somebody aborts it; when the source changes; or when somebody interrupts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from threading import Event

from headwater.cli.cast import audience
from headwater.connectors.kafka.cast_log import CastLog
from headwater.observe import logs
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.copy import Copy
from headwater.producers.caster.source import Source
from headwater.rules.errors import Fenced, HeadwaterError, Torn, Transient, Unavailable

log = logs.logger()

_READ_SECONDS = 0.2
_SOURCE_SECONDS = 1.0
"""How often the source is looked at while it is served: peers check every chunk anyway."""


class Ending(StrEnum):
    complete = "complete"
    expired = "expired"
    interrupted = "interrupted"


class Publication:
    """For one thread; ``interrupt`` by any."""

    def __init__(
        self,
        config: CasterConfig,
        source: Source,
        caster: Caster,
        reader: CastLog,
        make_copy: Callable[[], Copy] | None,
        origin_failed: Callable[[], Exception | None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``caster`` has announced its cast. ``make_copy`` is called once it is sealed; None: no copy.
        ``origin_failed``: why the peer that serves the source died, if it did."""
        self.caster = caster
        self.cast = caster.cast
        self.history = reader.history
        self.root: bytes | None = None
        self.copy: Copy | None = None
        self.blind = ""
        """Why the log is not read just now; the bytes go on without it."""
        self._config = config
        self._source = source
        self._reader = reader
        self._make_copy = make_copy
        self._origin_failed = origin_failed
        self._clock = clock
        self._interrupted = Event()
        self._copying: Future[None] | None = None
        self._complete_since: float | None = None
        self._look_at_source = 0.0

    def interrupt(self) -> None:
        self._interrupted.set()

    def run(self, looked: Callable[[], None] = lambda: None) -> Ending:
        """``looked`` is called a few times a second, when the log was read.

        Raises Torn where the source changed, Fenced where the cast was replaced or ended by somebody, and what the
        caster raises.
        """
        with ThreadPoolExecutor(2, "publish") as pool:
            hashing = pool.submit(self.caster.run)
            try:
                while not hashing.done():
                    self._look(looked)
                self.root = hashing.result()
                log.info("cast.sealed", name=self.cast.name, epoch=self.cast.epoch, root=self.root.hex())
                if self._make_copy is not None:
                    self.copy = self._make_copy()
                    self._copying = pool.submit(self.copy.run)
                    self._copying.add_done_callback(self._copy_ended)
                while (ending := self._ending()) is None:
                    self._look(looked)
                return ending
            except Unavailable:
                if self._interrupted.is_set():
                    return Ending.interrupted
                raise
            finally:
                self.caster.stop("its publisher ends")
                if self.copy is not None:
                    self.copy.stop()

    def _look(self, looked: Callable[[], None]) -> None:
        try:
            self._reader.read(_READ_SECONDS)
            self.blind = ""
        except Transient as error:
            if not self.blind:
                log.warning("publication.blind", name=self.cast.name, epoch=self.cast.epoch, reason=error.happened)
            self.blind = error.happened
            self._interrupted.wait(_READ_SECONDS)
        looked()
        if self._interrupted.is_set():
            self.caster.stop("its publisher was interrupted")
        if (failure := self._origin_failed()) is not None:
            self.caster.stop(f"its origin failed: {failure}")
            raise failure
        if over := audience.over(self.history):
            self.caster.stop(over)
            if self.root is not None:
                raise _over(self.cast.name, self.cast.epoch, over)

    def _ending(self) -> Ending | None:
        """Of a sealed cast. Raises Torn."""
        if self._interrupted.is_set():
            return Ending.interrupted
        self._watch_source()
        now = self._clock()
        if not audience.complete(self.history):
            self._complete_since = None
        elif self._complete_since is None:
            self._complete_since = now
        linger = self._config.linger_seconds if audience.others_may_come(self.history) else 0.0
        if self._complete_since is not None and now - self._complete_since >= linger and not self.copying:
            return Ending.complete
        return Ending.expired if now >= self.cast.expires_at.timestamp() else None

    @property
    def copying(self) -> bool:
        return self._copying is not None and not self._copying.done()

    @property
    def copied(self) -> bool:
        """There is a whole copy in S3, and the log says where."""
        done = self._copying is not None and self._copying.done() and self._copying.exception() is None
        return done and bool(self.cast.size)

    def _watch_source(self) -> None:
        """A cast whose copy is whole goes on without its source."""
        if self.copied or self._clock() < self._look_at_source:
            return
        self._look_at_source = self._clock() + _SOURCE_SECONDS
        if change := self._source.change():
            self.caster.abort(f"its source changed while it was served: {change}")
            raise Torn(
                f"the source changed while it was served: {change}.",
                asked=f"{self._source.path} is cast as {self.cast.name}.",
                kept="The cast is aborted. Who installed it has it whole; the others keep what they had before.",
                advice="Publish it again, and leave the file alone until everybody has it.",
            )

    def _copy_ended(self, copying: Future[None]) -> None:
        """Called in the copy's thread."""
        error = copying.exception()
        if error is not None:
            reason = error.happened if isinstance(error, HeadwaterError) else repr(error)
            log.warning("copy.given_up", name=self.cast.name, epoch=self.cast.epoch, reason=reason)


def _over(name: str, epoch: int, reason: str) -> Fenced:
    return Fenced(
        f"{reason}.",
        asked=f"Cast {name} {epoch} was being served.",
        kept="Who installed it has it; the others go on with what replaced it, or keep what they had before.",
        advice="`headwater cast list --all` shows what became of it.",
    )
