"""The newest record of each key, from a topic on which all keys are said again every few seconds."""

from __future__ import annotations

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.reading import messages
from headwater.schemas.codec import decode
from headwater.schemas.records import Record
from headwater.schemas.topics import Topic

_BACK_MS = 30_000
"""Three rounds of the views: a key that was not said in them is not said any more."""


def newest(kafka: Kafka, topic: Topic) -> dict[bytes, Record]:
    """By key, from what was said in the last half minute before the topic's last record, however long ago that was.

    Raises NotFound where the topic is missing, BadRecord where it holds something else.
    """
    places = offsets.partitions(kafka, topic.name)
    first, end = offsets.beginnings(kafka, places), offsets.ends(kafka, places)
    last = {place: end[place] - 1 for place in places if end[place] > first[place]}
    spoken = [message.timestamp()[1] for message in messages(kafka, last)]
    if not spoken:
        return {}
    starts = offsets.at_time(kafka, last, max(spoken) - _BACK_MS)
    return {message.key() or b"": decode(message.value()) for message in messages(kafka, starts)}
