"""Makes the views anew from the log (``headwater run views --rebuild``), and what a crash after each step leaves:

1. refuse   the group has no member                       nothing happened
2. rewind   it reads on from the log's beginning          the old table, to which every row is written again: the same
3. forget   the table's changelog is emptied              done; the next start, with or without --rebuild, goes on

The other order would be wrong: an empty table behind offsets at the end knows no count from before, for minutes.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from confluent_kafka import KafkaException, TopicPartition

from headwater.connectors.kafka import groups, offsets
from headwater.connectors.kafka.browse import start_at
from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs
from headwater.rules.errors import NotFound
from headwater.schemas.topics import VIEWS_SAMPLES
from headwater.streams.views.views import GROUP

log = logs.logger()

_SECONDS = 15.0


def rebuild(kafka: Kafka) -> None:
    """Raises Refused while a member of the views lives."""
    groups.refuse_members(kafka, GROUP)
    rewind(kafka)
    forget(kafka)
    log.info("views.rebuilding", group=GROUP)


def rewind(kafka: Kafka) -> None:
    """Step 2. A group that never committed begins at the beginning anyway."""
    with suppress(NotFound):
        beginning = start_at("beginning", datetime.now(UTC), "--rebuild")
        groups.move(kafka, GROUP, groups.plan(kafka, GROUP, beginning))


def forget(kafka: Kafka) -> None:
    """Step 3."""
    ends = offsets.high_watermarks(kafka, offsets.partitions(kafka, VIEWS_SAMPLES.name))
    places = [TopicPartition(*place, end) for place, end in ends.items()]
    try:
        for future in kafka.admin().delete_records(places, request_timeout=_SECONDS).values():
            future.result()
    except KafkaException as error:
        raise kafka.mapped(error, asked="The views' table was to be emptied.") from error
