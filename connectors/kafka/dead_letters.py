"""The records that groups gave up: listed, looked into, and sent back to where they came from, each once.

A dead letter is a record of dead.letters whose key names its origin: topic/partition/offset. A redriven letter is
followed, in the same partition, by a tombstone of that key (no value). So a letter is *open* until a tombstone with
its key comes after it; the log alone says what was redriven, for as long as it holds the letter.

Redriving, and what a crash after each step leaves:

1. fence   take the one transactional id of redriving: whoever redrives at this moment is cut off, and what it left
           unfinished is aborted. After it: nothing changed.
2. read    read dead.letters to its end, so that every finished redrive is seen. After it: nothing changed.
3. send    in one transaction, each chosen open letter's key, value and headers go to its origin's partition, with
           the header ``headwater-redrives`` one higher, and its tombstone to dead.letters. What a letter had no room
           for comes from its origin. After it: readers see neither; the next redrive, or Kafka after 10 s, aborts
           both.
4. commit  end the transaction. After it: readers see both.

Should a record still come back twice, its clock and its hash make the second one harmless, as for any record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException, Producer

from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import REDRIVES
from headwater.connectors.kafka.reading import messages
from headwater.rules.errors import NotFound
from headwater.schemas.records import DeadLetter
from headwater.schemas.topics import DEAD_LETTERS

Headers = list[tuple[str, str | bytes | None]]

_SECONDS = 30.0
_LETTERS_A_TRANSACTION = 500
"""Few enough to send within the transaction's time of 10 s, whatever they hold."""

REDRIVES_UNASKED = 3
"""A record that came back so often and failed each time will fail again: who wants it sent once more says so."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter and where it lies in dead.letters."""

    partition: int
    offset: int
    timestamp_ms: int
    record: DeadLetter
    open: bool

    @property
    def id(self) -> str:
        """Its origin, topic/partition/offset: what people name it by."""
        return self.record.key().decode()


def letters(kafka: Kafka) -> list[Letter]:
    """All dead letters that the log still holds, oldest first; of two about one record and group, the newer one."""
    found: dict[bytes, dict[str, Letter]] = {}
    for seen in browse(kafka, DEAD_LETTERS.name, Start("beginning")):
        if isinstance(seen.record, DeadLetter):
            letter = Letter(seen.partition, seen.offset, seen.timestamp_ms, seen.record, open=True)
            found.setdefault(seen.record.key(), {})[seen.record.group] = letter
        elif seen.value is None and seen.key in found:
            found[seen.key] = {group: replace(letter, open=False) for group, letter in found[seen.key].items()}
    return sorted((letter for of_key in found.values() for letter in of_key.values()), key=lambda at: at.timestamp_ms)


def letter(kafka: Kafka, wanted: str) -> Letter:
    """The letter of that id. Raises NotFound."""
    for found in reversed(letters(kafka)):
        if found.id == wanted:
            return found
    raise NotFound(
        f"there is no dead letter {wanted}.",
        asked=f"Dead letter {wanted} was to be shown.",
        advice="`headwater dead list` names those that there are, as topic/partition/offset.",
    )


class Redrive:
    """One run of the protocol above. Use it once."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._producer: Producer = kafka.transactional_producer("dead-letters.redrive")

    def run(
        self,
        wanted: Callable[[Letter], bool],
        per_second: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[Letter]:
        """Redrives the open letters that are ``wanted``; returns them. ``per_second``: at most so many.

        Raises Fenced when another redrive began meanwhile; what was committed before stays redriven.
        """
        together = min(_LETTERS_A_TRANSACTION, max(1, int(per_second or _LETTERS_A_TRANSACTION)))
        try:
            self.fence()
            chosen = self.read(wanted)
            for first in range(0, len(chosen), together):
                if first and per_second:
                    sleep(together / per_second)
                self.send(chosen[first : first + together])
                self.commit()
        except KafkaException as error:
            raise self._kafka.mapped(error, asked="Dead letters were to be redriven.") from error
        return chosen

    def fence(self) -> None:
        self._producer.init_transactions(_SECONDS)

    def read(self, wanted: Callable[[Letter], bool]) -> list[Letter]:
        chosen = [letter for letter in letters(self._kafka) if letter.open and wanted(letter)]
        # Where two groups gave up one record, it goes back once: both read it there.
        return list({letter.record.key(): letter for letter in chosen}.values())

    def send(self, chosen: Iterable[Letter]) -> None:
        """Raises NotFound where a letter is cut and its topic no longer has the record."""
        whole = [(letter, _whole(self._kafka, letter)) for letter in chosen]
        self._producer.begin_transaction()
        dead = self._kafka.physical(DEAD_LETTERS)
        for letter, (key, value, headers) in whole:
            origin = letter.record
            self._producer.produce(
                self._kafka.physical(origin.topic),
                key=key,
                value=value,
                headers=_one_redrive_more(headers, origin.redrives),
                partition=origin.partition,
            )
            self._producer.produce(dead, key=origin.key(), value=None, partition=letter.partition)
            self._producer.poll(0)
        self._producer.flush(_SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction(_SECONDS)


def _whole(kafka: Kafka, letter: Letter) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers of the record as it was."""
    origin = letter.record
    if not origin.cut_bytes:
        return origin.original_key, origin.value, [(header.name, header.value) for header in origin.headers]
    for message in messages(kafka, {(kafka.physical(origin.topic), origin.partition): origin.offset}):
        if message.offset() == origin.offset:
            return message.key(), message.value(), message.headers() or []  # type: ignore[return-value]
        break
    raise NotFound(
        f"the letter holds {origin.cut_bytes} bytes less than the record had, and its topic no longer has it.",
        asked=f"Dead letter {letter.id} was to be redriven.",
        kept="The letter stays open. What was redriven before stays so.",
        advice="The record is gone: ask its source for the file again (touch it), and redrive the others by name.",
    )


def _one_redrive_more(headers: Headers, redrives: int) -> Headers:
    return [*((name, value) for name, value in headers if name != REDRIVES), (REDRIVES, str(redrives + 1).encode())]
