"""Steps 3 to 7 of the batch protocol: a batch's outputs and offsets, in one Kafka transaction.

Safety does not rest on the transaction (librdkafka lacks its second version, KIP-890, so that a delayed end can touch
the next one): steps are safe to repeat. It keeps the log clean, so that each output is seen once. After any failure
or unclear answer this producer must therefore not be used again: the member closes it and starts over from the
committed offsets, with a producer whose ``init_transactions`` settles what was left open.
"""

from __future__ import annotations

from functools import partial

from confluent_kafka import KafkaException, TopicPartition

from headwater.connectors.kafka.client import TRANSACTION_SECONDS, Kafka
from headwater.rules.errors import Fenced, HeadwaterError, Refused, TopicMismatch, Unclear
from headwater.streams.runtime.batch import Reading
from headwater.streams.runtime.step import Encoded, Finished
from headwater.streams.runtime.worker import Worker

_START_SECONDS = 30.0
"""``init_transactions`` waits for the transaction of an earlier holder to end, at most its time-out."""

PATIENCE_SECONDS = TRANSACTION_SECONDS + 5.0
"""librdkafka may forget the time-out of ``send_offsets_to_transaction`` when the group's coordinator goes away, and
wait for ever (librdkafka #5456; found by bench/run sync-chaos). The producer is then given up with its thread."""


class BatchTransaction:
    """The transactional producer of one slot. Used by the member's consumer thread."""

    def __init__(self, kafka: Kafka, transactional_id: str) -> None:
        """Fences an earlier holder of the id and ends what it left open. Raises Unavailable or Refused."""
        self._kafka = kafka
        self._asked = f"The transactions of {transactional_id} were to be started."
        self._producer = kafka.transactional_producer(transactional_id)
        self._offsets_sender: Worker[None] = Worker(f"{transactional_id}-offsets")
        try:
            self._producer.init_transactions(_START_SECONDS)
        except KafkaException as error:
            self.close()
            raise kafka.mapped(error, asked=self._asked) from error

    def write(self, finished: Finished) -> None:
        """All or nothing for readers of committed records. Raises Fenced where the group or the slot went on without
        us, Unclear where it may or may not have happened."""
        self._asked = f"A batch with {len(finished.outputs)} outputs was to be committed."
        try:
            self._begin()
            self._produce(finished.outputs)
            self._flush()
            if not finished.reading.is_idle:
                self._send_offsets(finished.reading)
            self._commit()
        except (KafkaException, BufferError, TimeoutError) as error:
            raise self._judged(error) from error

    def close(self) -> None:
        """Destroys the producer at once. Its own ``close`` would first abort what is open and wait for the broker's
        answer, for as long as an outage lasts; the next ``init_transactions`` aborts it anyway."""
        self._offsets_sender.close()
        del self._producer

    def _begin(self) -> None:
        """3. Local: nothing is sent."""
        self._producer.begin_transaction()

    def _produce(self, outputs: list[Encoded]) -> None:
        """4. Into the producer's queue; a full queue is drained first."""
        produce = self._producer.produce
        for topic, value, key, headers in outputs:
            while True:
                try:
                    produce(topic, value, key, headers=headers)  # type: ignore[arg-type]
                    break
                except BufferError:
                    self._flush()

    def _flush(self) -> None:
        """5. Every output is on the brokers, invisible. Without this step the next one waits for a full back-off:
        100 ms a transaction instead of 5 to 29 ms (measured)."""
        if self._producer.flush(TRANSACTION_SECONDS):
            raise BufferError(f"outputs were not acknowledged within {TRANSACTION_SECONDS} s")

    def _send_offsets(self, reading: Reading) -> None:
        """6. With the membership that the batch was read under, never a newer one: a stale member is refused here."""
        offsets = [TopicPartition(*place, offset) for place, offset in reading.next_offsets.items()]
        if not offsets or min(offset.offset for offset in offsets) < 0:
            raise Unclear(f"the batch has no valid offsets ({offsets}): committing it would silently do nothing")
        send = partial(self._producer.send_offsets_to_transaction, offsets, reading.assignment.membership)
        self._offsets_sender.start(partial(send, TRANSACTION_SECONDS))
        outcome = self._offsets_sender.wait(PATIENCE_SECONDS)
        if outcome is None:
            raise TimeoutError(f"no answer within {PATIENCE_SECONDS:.0f} s")
        outcome.get()

    def _commit(self) -> None:
        """7. The commit point."""
        self._producer.commit_transaction(TRANSACTION_SECONDS)

    def _judged(self, error: KafkaException | BufferError | TimeoutError) -> HeadwaterError:
        if isinstance(error, KafkaException):
            mapped = self._kafka.mapped(error, asked=self._asked)
            if isinstance(mapped, Fenced | Refused | TopicMismatch):
                return mapped
            happened = mapped.happened
        else:
            happened = f"Kafka at {self._kafka.config.bootstrap_servers} does not take the batch: {error}."
        return Unclear(
            f"{happened} Whether it was done is not known.",
            asked=self._asked,
            kept="What was committed is kept; the batch is read again if it was not.",
        )
