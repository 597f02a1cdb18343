"""Reads partitions from given offsets, up to where they ended at the call or for ever; commits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place


def messages(kafka: Kafka, starts: Mapping[Place, int], *, follow: bool = False) -> Iterator[Message]:
    """The committed messages from ``starts``, each partition in order. Raises what Kafka's errors are mapped to."""
    open_places = dict(starts)
    ends = offsets.ends(kafka, open_places)
    if not follow:
        open_places = {place: at for place, at in open_places.items() if at < ends[place]}
    # At the end of a partition the broker answers after this wait, not after its usual half second.
    consumer = kafka.consumer("inspect", enable_partition_eof=True, fetch_wait_max_ms=50)
    try:
        consumer.assign([TopicPartition(*place, at) for place, at in open_places.items()])
        while open_places:
            message = consumer.poll(0.5)
            if message is None:
                continue
            place, error = (message.topic() or "", message.partition() or 0), message.error()
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not at_end:
                raise KafkaException(error)
            if place not in open_places:
                continue
            if not at_end:
                yield message
            if not follow and (at_end or (message.offset() or 0) + 1 >= ends[place]):
                del open_places[place]
    except KafkaException as error:
        raise kafka.mapped(error, asked="Topics were being read.") from error
    finally:
        consumer.close()
