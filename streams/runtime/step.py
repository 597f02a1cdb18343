"""One step: a batch goes through the processor, whatever its records or the world around it are like.

- Transient, Refused: wait with full-jitter backoff, say why, call again with the same batch.
- A record of a newer release: wait too, for the upgrade. Passed over, it would be missing and nobody could name it.
- An error of a record: find the record by calling with one at a time, bury it, and go on with its neighbours in order.
- Fenced: up to the member, which drops the batch. BadSettings, TopicMismatch: up to the person who runs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import TRACEPARENT, event_headers, header
from headwater.observe import logs, metrics
from headwater.rules.errors import (
    BadRecord,
    BadSettings,
    Fenced,
    HeadwaterError,
    NewerRecord,
    Permanent,
    Refused,
    TopicMismatch,
    Transient,
)
from headwater.schemas.codec import encode
from headwater.schemas.topics import DEAD_LETTERS
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.batch import Assignment, Reading
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.dead_letters import dead_letter
from headwater.streams.runtime.processor import Batch, Input, Output, Processor
from headwater.streams.runtime.state import StateBoard

STEP = "step"
"""What the step shows as degraded: anything that its processor needs."""


class Released(Exception):
    """The partitions went away while the step waited for something: its batch is somebody else's now."""


_UNMENDABLE = (Released, Fenced, BadSettings, TopicMismatch)
"""Neither waiting here nor burying a record helps."""


Encoded = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""A record to produce: the topic's name on the cluster, value, key and headers."""


class Finished(NamedTuple):
    """A step's result: what steps 3 to 7 of the batch protocol write."""

    reading: Reading
    outputs: list[Encoded]
    started: float
    """When the step began, on ``time.perf_counter``."""


class Step:
    """Lives in the member's step thread."""

    def __init__(
        self, kafka: Kafka, processor: Processor, config: MemberConfig, board: StateBoard, random: Random
    ) -> None:
        self._processor = processor
        self._config = config
        self._board = board
        self._random = random
        self._log = logs.logger()
        self._logical = {kafka.physical(topic): topic.name for topic in processor.reads}
        self._physical = {topic.name: kafka.physical(topic) for topic in (*processor.writes, DEAD_LETTERS)}

    def run(self, reading: Reading) -> Finished | None:
        """Step 2 of the batch protocol; None where the batch was released. Raises Fenced, BadSettings or
        TopicMismatch."""
        started = time.perf_counter()
        logical = self._logical
        inputs = [Input(logical[message.topic()], message) for message in reading.messages]  # type: ignore[index]
        try:
            outputs = self._process(inputs, reading.assignment) if inputs or reading.is_idle else ()
        except Released:
            return None
        encoded = self._encode(outputs)
        if inputs:
            seconds = (time.perf_counter() - started) / len(inputs)
            metrics.GROUP_RECORD_SECONDS.labels(self._processor.name).observe(seconds)
        return Finished(reading, encoded, started)

    def _process(self, inputs: Sequence[Input], assignment: Assignment) -> Sequence[Output]:
        try:
            return self._patiently(lambda: self._call(inputs, assignment), assignment)
        except _UNMENDABLE:
            raise
        except Exception as error:
            self._log.warning("batch.isolating", group=self._processor.name, records=len(inputs), error=repr(error))
            return self._process_around_bad_records(inputs, assignment)

    def _process_around_bad_records(self, inputs: Sequence[Input], assignment: Assignment) -> Sequence[Output]:
        """What does not decode is known without the processor: where there is some, the rest goes together again."""
        readable, bad = _sorted_out(inputs)
        if not bad:
            return [output for one in inputs for output in self._process_alone(one, assignment)]
        outputs = list(self._process(readable, assignment)) if readable else []
        # After the rest, so that ``bury`` finds what the records before it said about the same subject.
        for one, error in bad:
            outputs += self._bury(one, error, assignment)
        return outputs

    def _process_alone(self, one: Input, assignment: Assignment) -> Sequence[Output]:
        for attempt in count(1):
            try:
                return self._patiently(lambda: self._call([one], assignment), assignment)
            except _UNMENDABLE:
                raise
            except Permanent as error:
                return self._bury(one, error, assignment)
            except Exception as error:
                if attempt >= self._config.tries:
                    return self._bury(one, _unexpected(error), assignment)
                self._wait(attempt, assignment)
        raise AssertionError("count() does not end")

    def _bury(self, dead: Input, error: HeadwaterError, assignment: Assignment) -> Sequence[Output]:
        """Whatever fails here is waited for: a record must not disappear before the catalog can name it."""
        outputs = self._patiently(lambda: self._processor.bury(dead, error), assignment, waited_for=(Exception,))
        return [*outputs, self._dead_letter(dead, error)]

    def _call(self, inputs: Sequence[Input], assignment: Assignment) -> Sequence[Output]:
        held = tuple((self._logical[topic], partition) for topic, partition in assignment.places)
        return self._processor.process(Batch(tuple(inputs), assignment.number, assignment.is_current, held))

    def _patiently(
        self,
        call: Callable[[], Sequence[Output]],
        assignment: Assignment,
        waited_for: tuple[type[Exception], ...] = (Transient, Refused, NewerRecord),
    ) -> Sequence[Output]:
        """The call's result, however long it takes until what it needs is there again."""
        for attempt in count():
            try:
                outputs = call()
            except _UNMENDABLE:
                raise
            except waited_for as error:
                self._board.degrade(STEP, str(error) or repr(error))
                self._log.warning("step.waiting", group=self._processor.name, attempt=attempt, error=str(error))
                self._wait(attempt, assignment)
            else:
                self._board.recover(STEP)
                return outputs
        raise AssertionError("count() does not end")

    def _wait(self, attempt: int, assignment: Assignment) -> None:
        metrics.GROUP_RETRIES.labels(self._processor.name).inc()
        seconds = full_jitter(
            attempt,
            base_seconds=self._config.retry_base_seconds,
            most_seconds=self._config.retry_most_seconds,
            random=self._random,
        )
        if assignment.over.wait(seconds):
            self._board.recover(STEP)
            raise Released

    def _dead_letter(self, dead: Input, error: HeadwaterError) -> Output:
        metrics.GROUP_DEAD_LETTERS.labels(self._processor.name).inc()
        self._log.error(
            "record.buried",
            group=self._processor.name,
            topic=dead.topic,
            partition=dead.partition,
            offset=dead.offset,
            error=str(error),
        )
        return Output(DEAD_LETTERS, dead_letter(dead, self._processor.name, error))

    def _encode(self, outputs: Sequence[Output]) -> list[Encoded]:
        now = time.time_ns() // 1_000
        plain = event_headers(now)
        encoded: list[Encoded] = []
        for topic, record, cause in outputs:
            name = self._physical[topic.name]
            if isinstance(record, Input):
                encoded.append((name, *record.as_it_came()))
                continue
            trace = header(cause.headers, TRACEPARENT) if cause is not None else None
            headers = plain if trace is None else event_headers(now, trace)
            encoded.append((name, encode(record), record.key(), headers))
        return encoded


def _sorted_out(inputs: Sequence[Input]) -> tuple[list[Input], list[tuple[Input, BadRecord]]]:
    """Those that decode, and those that do not, with the reason."""
    readable: list[Input] = []
    bad: list[tuple[Input, BadRecord]] = []
    for one in inputs:
        try:
            one.record  # noqa: B018  # reading it decodes it
        except NewerRecord:
            readable.append(one)  # whoever reads it waits
        except BadRecord as error:
            bad.append((one, error))
        else:
            readable.append(one)
    return readable, bad


def _unexpected(error: Exception) -> HeadwaterError:
    """A fault of ours (or of a library) in a record's processing, with its stack."""
    wrapped = BadRecord(f"{type(error).__name__}: {error}", asked="The record was to be processed.")
    wrapped.__cause__ = error
    return wrapped
