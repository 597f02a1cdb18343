"""One round of the relay: rows of the outbox become records of the log.

1. take      rows that nobody has, for some seconds; the rows told in the round before are deleted with it. One
             transaction, whose commit waits for the disk, and with it for all that it saw: a change that the server
             could still forget is told to nobody
2. produce   their records go out, and
3. flush     the log acknowledges them
4. note      they are told: the next round's first step deletes them

A crash before 3 leaves rows that are taken by another relay, or this one, when their time is over; one after it the
same, and the log has their records twice. No transaction waits for the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, Message

from headwater.connectors.jobs import outbox
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.outbox import Told
from headwater.connectors.kafka.client import Kafka
from headwater.observe import job_metrics
from headwater.rules.errors import Unavailable
from headwater.streams.outbox.records import records

ROUND_ROWS = 500
"""One round: as many as go out in some tens of milliseconds."""
TAKEN_SECONDS = 10.0
"""A relay that died leaves its round to others after this."""
_FLUSH_SECONDS = 8.0
"""Less than a round is taken for: what is not acknowledged by then is taken again, by whoever comes first."""
_SETTINGS = {
    # Each round waits for its acknowledgements: to gather more would only be slower.
    "linger_ms": 0,
    "message_timeout_ms": int(_FLUSH_SECONDS * 1_000),
}


class Relay:
    """Used from one thread."""

    def __init__(self, database: JobsDatabase, kafka: Kafka) -> None:
        self._database = database
        self._kafka = kafka
        self._producer = kafka.producer(**_SETTINGS)
        self._told: list[int] = []
        self._failure: KafkaError | None = None

    def round(self) -> int:
        """Steps 1 to 4; how many rows were told. Raises Unavailable and Refused; nothing is lost then."""
        taken = self.take()
        if taken:
            self.produce(taken)
            self.flush()
            self.note(taken)
        return len(taken)

    def take(self) -> list[Told]:
        """Step 1."""
        with self._database.quiet() as transaction:
            if self._told:
                outbox.told(transaction, self._told)
            taken = outbox.take(transaction, ROUND_ROWS, TAKEN_SECONDS)
            if taken:
                outbox.keep_what_is_seen(transaction)
        self._told = []
        return taken

    def produce(self, taken: Sequence[Told]) -> None:
        """Step 2."""
        self._failure = None
        for row in taken:
            for record in records(row):
                headers: Any = record.headers
                self._producer.produce(
                    self._kafka.physical(record.topic),
                    record.value,
                    record.key,
                    record.partition,
                    headers=headers,
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)

    def flush(self) -> None:
        """Step 3."""
        left = self._producer.flush(_FLUSH_SECONDS)
        if self._failure is not None:
            raise self._kafka.mapped(self._failure, asked="Telling the log what became of jobs.")
        if left:
            raise Unavailable(
                f"Kafka did not acknowledge {left} records within {_FLUSH_SECONDS:.0f} s.",
                kept="They stay in the outbox, and are told again.",
            )

    def note(self, taken: Sequence[Told]) -> None:
        """Step 4."""
        self._told = [row.seq for row in taken]
        job_metrics.OUTBOX_SENT.inc(len(taken))

    def settle(self) -> None:
        """Deletes what the last round told, and takes nothing."""
        with self._database.quiet() as transaction:
            outbox.told(transaction, self._told)
        self._told = []

    def close(self) -> None:
        """What is under way is given up: its rows will be taken again."""
        self._producer.purge()
        self._producer.close()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error
