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
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Message

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import TRACEPARENT, HeaderList, event_headers, header
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
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Record
from headwater.schemas.topics import DEAD_LETTERS
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.batch import Assignment, Reading
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.dead_letters import dead_letter
from headwater.streams.runtime.processor import Batch, Input, Output, Processor, Received
from headwater.streams.runtime.state import StateBoard

Result = TypeVar("Result")

STEP = "step"
"""What the step shows as degraded: anything that its processor needs."""


class Released(Exception):
    """The partitions went away while the step waited for something: its batch is somebody else's now."""


_UNMENDABLE = (Released, Fenced, BadSettings, TopicMismatch)
"""Neither waiting here nor burying a record helps."""

Fields = tuple[str, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""The fields of Received, in order."""


class Encoded(NamedTuple):
    """A record to produce; ``topic`` is the name on the cluster."""

    topic: str
    key: bytes
    value: bytes
    headers: HeaderList


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

    def run(self, reading: Reading) -> Finished:
        """Step 2 of the batch protocol. Raises Released, Fenced, BadSettings or TopicMismatch."""
        started = time.perf_counter()
        inputs, outputs = self._decode(reading.messages, reading.assignment)
        if inputs or reading.is_idle:
            outputs += self._process(inputs, reading.assignment)
        encoded = self._encode(outputs)
        if reading.messages:
            seconds = (time.perf_counter() - started) / len(reading.messages)
            metrics.GROUP_RECORD_SECONDS.labels(self._processor.name).observe(seconds)
        return Finished(reading, encoded, started)

    def _decode(self, messages: Sequence[Message], assignment: Assignment) -> tuple[list[Input], list[Output]]:
        """The records, and a dead letter for each message that is none."""
        inputs: list[Input] = []
        dead: list[Output] = []
        for message in messages:
            fields = self._fields(message)
            try:
                inputs.append(Input(*fields, self._decoded(fields[4], assignment)))
            except BadRecord as error:
                dead.append(self._dead_letter(Received(*fields), error))
        return inputs, dead

    def _decoded(self, value: bytes | None, assignment: Assignment) -> Record:
        try:
            return decode(value)
        except NewerRecord:
            return self._patiently(lambda: decode(value), assignment, (NewerRecord,))

    def _fields(self, message: Any) -> Fields:
        # The client's types allow None and str where a consumed message has neither.
        headers = message.headers()
        return (
            self._logical[message.topic()],
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            tuple(headers) if headers else (),
            message.timestamp()[1],
        )

    def _process(self, inputs: list[Input], assignment: Assignment) -> Sequence[Output]:
        try:
            return self._patiently(lambda: self._call(inputs, assignment), assignment)
        except _UNMENDABLE:
            raise
        except Exception as error:
            self._log.warning("batch.isolating", group=self._processor.name, records=len(inputs), error=repr(error))
            return [output for one in inputs for output in self._process_alone(one, assignment)]

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
        call: Callable[[], Result],
        assignment: Assignment,
        waited_for: tuple[type[Exception], ...] = (Transient, Refused),
    ) -> Result:
        """The call's result, however long it takes until what it needs is there again."""
        for attempt in count():
            try:
                result = call()
            except _UNMENDABLE:
                raise
            except waited_for as error:
                self._board.degrade(STEP, str(error) or repr(error))
                self._log.warning("step.waiting", group=self._processor.name, attempt=attempt, error=str(error))
                self._wait(attempt, assignment)
            else:
                self._board.recover(STEP)
                return result
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

    def _dead_letter(self, dead: Received, error: HeadwaterError) -> Output:
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
        encoded = []
        for output in outputs:
            trace = header(output.cause.headers, TRACEPARENT) if output.cause is not None else None
            headers = plain if trace is None else event_headers(now, trace)
            record = output.record
            encoded.append(Encoded(self._physical[output.topic.name], record.key(), encode(record), headers))
        return encoded


def _unexpected(error: Exception) -> HeadwaterError:
    """A fault of ours (or of a library) in a record's processing, with its stack."""
    wrapped = BadRecord(f"{type(error).__name__}: {error}", asked="The record was to be processed.")
    wrapped.__cause__ = error
    return wrapped
