"""A member of a consumer group: it reads batches, runs a processor's step on each, and commits outputs and offsets
together.

The batch protocol, and what a crash after each step leaves:

1. read      a batch, under an assignment        nothing happened: it is read again
2. step      the processor's effects             they stand; the next owner repeats them, which changes nothing
3. begin     a transaction, locally              as after 2
4. produce   outputs into the producer's queue   as after 2; what was sent is invisible
5. flush     outputs are on the brokers          invisible; the slot's next holder, or the time-out, aborts them
6. offsets   the batch's offsets join in         as after 5
7. commit    outputs and offsets are visible     done; the next batch goes on from there

Two batches are in hand at most: while the consumer thread takes one through 3 to 7, the step thread takes the next
one through 2. Commits keep the order of reading, and a batch whose predecessor was not committed is dropped with it.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from random import Random

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import logs, metrics
from headwater.rules.errors import Fenced, HeadwaterError, Refused, Transient, Unavailable
from headwater.schemas.topics import DEAD_LETTERS
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.batch import BatchReader, Reading
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.lag import LagWatch
from headwater.streams.runtime.processor import Processor
from headwater.streams.runtime.slot import Slot, take_slot
from headwater.streams.runtime.state import MemberState, Phase, StateBoard
from headwater.streams.runtime.step import STEP, Finished, Step
from headwater.streams.runtime.transaction import BatchTransaction
from headwater.streams.runtime.worker import Worker

KAFKA = "kafka"
_PROBE_SECONDS = 1.0
_GLANCE_SECONDS = 0.05


class Member:
    """``run`` it in a thread of its own choice, the main thread if signals are to stop it."""

    def __init__(self, kafka: Kafka, processor: Processor, config: MemberConfig | None = None) -> None:
        self.group = processor.name
        self._kafka = kafka
        self._processor = processor
        self._config = config or MemberConfig()
        self._random = Random()
        self._log = logs.logger()
        self._board = StateBoard(self.group, time.time)
        self._step = Step(kafka, processor, self._config, self._board, self._random)
        self._steps: Worker[Finished | None] = Worker(f"{self.group}-step")
        self._numbers = count(1)
        self._failures = 0
        self._was_away = False
        self._idle_at = 0.0
        self._stop_asked: float | None = None
        self._transactional_id = ""
        self._reader: BatchReader | None = None
        for counter in (metrics.GROUP_RECORDS, metrics.GROUP_RETRIES, metrics.GROUP_DEAD_LETTERS):
            counter.labels(self.group)  # at 0 from the start: a rate does not see the event that a counter begins with

    def state(self) -> MemberState:
        """Safe from any thread."""
        reader = self._reader
        return self._board.read(self._transactional_id, reader.partitions() if reader else ())

    def stop(self) -> None:
        """Drain: the steps in hand are finished and committed, then ``run`` returns. Safe from a signal handler."""
        self._stop_asked = self._stop_asked or time.monotonic()

    def run(self) -> None:
        """Serve until ``stop``. Outages are waited for; raises TopicMismatch, BadSettings for what a person must mend,
        and at the start also Unavailable or Refused, where the cluster was never seen."""
        verify_topics(self._kafka, (*self._processor.reads, *self._processor.writes, DEAD_LETTERS))
        with take_slot(self._config.slot_folder, self.group, self._config.host) as slot:
            self._transactional_id = slot.transactional_id
            while self._stop_asked is None:
                try:
                    self._join_and_serve(slot)
                except (Fenced, Transient, Refused) as error:
                    self._start_over_after(error)
            self._steps.close()
            self._board.enter(Phase.stopped)

    def _join_and_serve(self, slot: Slot) -> None:
        self._finish_old_step()
        transaction = BatchTransaction(self._kafka, slot.transactional_id)
        try:
            reader = BatchReader(self._kafka, self.group, self._processor.reads, self._processor.limits, self._numbers)
            try:
                self._reader = reader
                self._serve(reader, transaction)
            finally:
                self._reader = None
                reader.close()
        finally:
            transaction.close()

    def _serve(self, reader: BatchReader, transaction: BatchTransaction) -> None:
        """The main loop. ``finished`` went through the step and waits for its commit."""
        self._board.enter(Phase.running)
        lag = LagWatch(self.group)
        finished: Finished | None = None
        while self._stop_asked is None:
            reading = reader.read(at_once=finished is not None) or self._idle_reading(reader)
            if reading is not None:
                self._steps.start(partial(self._step.run, reading))
            if finished is not None:
                self._commit(finished, transaction)
            finished = self._await_step(reader) if reading is not None else None
            lag.observe(reader, finished)
            self._notice_silence(reader)
        self._board.enter(Phase.draining)
        if finished is not None:
            self._commit(finished, transaction)

    def _idle_reading(self, reader: BatchReader) -> Reading | None:
        """Nothing was read: now and then an empty batch, where the processor wants one."""
        every = self._processor.limits.idle_seconds
        if every is None or time.monotonic() < self._idle_at:
            return None
        self._idle_at = time.monotonic() + every
        return reader.idle()

    def _commit(self, finished: Finished, transaction: BatchTransaction) -> None:
        """Steps 3 to 7, unless the partitions went away since step 1."""
        if not finished.reading.assignment.is_current():
            self._log.info("batch.dropped", group=self.group, records=len(finished.reading.messages))
            return
        if finished.reading.is_idle and not finished.outputs:
            return
        with self._board.waiting_for(f"Kafka at {self._kafka.config.bootstrap_servers}"):
            transaction.write(finished)
        self._failures = 0
        metrics.GROUP_RECORDS.labels(self.group).inc(len(finished.reading.messages))
        metrics.GROUP_BATCH_SECONDS.labels(self.group).observe(time.perf_counter() - finished.started)

    def _await_step(self, reader: BatchReader) -> Finished | None:
        """The step's result; meanwhile the place in the group is kept. None where the batch was released."""
        outcome = self._steps.wait(self._config.pause_after_seconds)
        if outcome is not None:
            return outcome.get()
        paused = time.monotonic()
        reader.pause()
        try:
            while outcome is None and not self._must_release():
                self._board.enter(Phase.paused if self._stop_asked is None else Phase.draining)
                reader.keep_place()
                outcome = self._steps.wait(_GLANCE_SECONDS)
        finally:
            reader.resume()
            metrics.GROUP_PAUSED_SECONDS.labels(self.group).inc(time.monotonic() - paused)
        if outcome is None:
            return None
        self._board.enter(Phase.running)
        return outcome.get()

    def _must_release(self) -> bool:
        """Whether a step in hand is given up although it has not ended: its next owner repeats it."""
        if self._stop_asked is None:
            return False
        return self._board.is_degraded(STEP) or time.monotonic() - self._stop_asked > self._config.drain_seconds

    def _finish_old_step(self) -> None:
        """A step whose batch was dropped may still run: the next one must wait for it."""
        while self._steps.is_busy() and not self._must_release():
            self._steps.wait(_GLANCE_SECONDS)

    def _notice_silence(self, reader: BatchReader) -> None:
        """A consumer that hears nothing looks like one that has nothing to do: ask, where there is a suspicion.

        Raises Unavailable after an outage: what was made before it is not to be trusted.
        """
        since = self._kafka.silent_since()
        if since is None and not self._board.is_degraded(KAFKA):
            return
        where = self._kafka.config.bootstrap_servers
        if reader.broker_answers(_PROBE_SECONDS):
            self._kafka.answered()
            self._board.recover(KAFKA)
            if self._was_away:
                self._was_away = False
                # A producer that lived through it hangs for ever in its next transaction: librdkafka #5456.
                raise Unavailable(f"Kafka at {where} was away and is back: its clients are made anew.")
        elif since is not None:
            self._was_away = True
            seconds = time.monotonic() - since
            self._board.degrade(KAFKA, f"Kafka at {where} does not answer for {seconds:.0f} s; trying again.")

    def _start_over_after(self, error: HeadwaterError) -> None:
        """Drop what is in hand, wait a little, and let ``run`` join anew from the committed offsets."""
        if not isinstance(error, Fenced):
            self._board.degrade(KAFKA, str(error))
        self._log.warning("member.starting_over", group=self.group, error=str(error))
        metrics.GROUP_RETRIES.labels(self.group).inc()
        seconds = full_jitter(
            self._failures,
            base_seconds=self._config.retry_base_seconds,
            most_seconds=self._config.retry_most_seconds,
            random=self._random,
        )
        self._failures += 1
        deadline = time.monotonic() + seconds
        while self._stop_asked is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _GLANCE_SECONDS))
