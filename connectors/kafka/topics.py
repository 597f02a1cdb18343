"""The cluster's topics against the catalogue of topics: what is there, what differs, how to mend it.

The partition count of a keyed topic is part of its contract: it decides which member sees which key, and in what
order. It is therefore never changed here, only reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs forget to re-export them
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from headwater.connectors.kafka.client import Kafka
from headwater.rules.errors import TopicMismatch
from headwater.schemas.topics import Topic

_PATIENCE_SECONDS = 3.0
_SECONDS = 10.0
_CLEANUP, _TIMESTAMP, _COMPRESSION = "cleanup.policy", "message.timestamp.type", "compression.type"
_IN_SYNC = "min.insync.replicas"
_FOR_EVER_MS = -1


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the cluster has it. ``retention_ms`` of -1 keeps records for ever."""

    partitions: int
    replication: int
    retention_ms: int
    cleanup_policy: str
    min_insync_replicas: int
    timestamp_type: str = "CreateTime"
    compression: str = "producer"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between catalogue and cluster; ``found`` is None where the whole topic is missing."""

    topic: str
    setting: str
    expected: str
    found: str | None
    mendable: bool
    """Whether ``apply`` can mend it without moving keys or data."""


def describe(kafka: Kafka, topics: Iterable[Topic]) -> dict[str, FoundTopic]:
    """What the cluster has of these topics, by the catalogue's name; what is missing is absent."""
    names = {kafka.physical(topic): topic.name for topic in topics}
    listed = _listed(kafka)
    present = [name for name in names if name in listed]
    try:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in present]
        configs = kafka.admin().describe_configs(resources, request_timeout=_SECONDS) if resources else {}
        settings = {resource.name: future.result() for resource, future in configs.items()}
    except KafkaException as error:
        raise kafka.mapped(error, asked="The settings of the topics were to be read.") from error
    return {
        names[name]: FoundTopic(
            partitions=len(listed[name].partitions),
            replication=min(len(part.replicas) for part in listed[name].partitions.values()),
            retention_ms=int(settings[name]["retention.ms"].value),
            cleanup_policy=",".join(sorted(settings[name][_CLEANUP].value.split(","))),
            min_insync_replicas=int(settings[name]["min.insync.replicas"].value),
            timestamp_type=settings[name][_TIMESTAMP].value,
            compression=settings[name][_COMPRESSION].value,
        )
        for name in present
    }


def drift(
    topics: Iterable[Topic], found: Mapping[str, FoundTopic], replication: int | None = None
) -> tuple[Drift, ...]:
    """Where the cluster differs from the catalogue. ``replication`` of None: any will do, and any in-sync minimum."""
    differences: list[Drift] = []
    for topic in topics:
        have = found.get(topic.name)
        if have is None:
            differences.append(Drift(topic.name, "topic", f"{topic.partitions} partitions", None, True))
            continue
        compared = [
            ("partitions", topic.partitions, have.partitions, False),
            ("retention.ms", retention_ms(topic), have.retention_ms, True),
            (_CLEANUP, cleanup_policy(topic), have.cleanup_policy, True),
            (_TIMESTAMP, timestamp_type(topic), have.timestamp_type, True),
            (_COMPRESSION, topic.compression, have.compression, True),
        ]
        if replication is not None:
            # Asked of more copies than a topic has, a minimum would refuse every record.
            in_sync = min_insync_replicas(min(replication, have.replication))
            compared += [
                ("replication", replication, have.replication, False),
                (_IN_SYNC, in_sync, have.min_insync_replicas, True),
            ]
        differences += [
            Drift(topic.name, setting, str(expected), str(actual), mendable)
            for setting, expected, actual, mendable in compared
            if expected != actual
        ]
    return tuple(differences)


def apply(kafka: Kafka, topics: Iterable[Topic], replication: int | None = None) -> tuple[Drift, ...]:
    """Create what is missing, alter what can be altered; returns what was mended.

    ``replication`` of None takes that of the client's settings, and without one the brokers' default for new topics.
    Raises TopicMismatch, after everything else was mended, where a partition count or a replication factor differs.
    """
    topics = tuple(topics)
    replication = replication or kafka.config.replication
    differences = drift(topics, describe(kafka, topics), replication)
    by_name = {topic.name: topic for topic in topics}
    missing = [by_name[change.topic] for change in differences if change.setting == "topic"]
    alterable = [change for change in differences if change.mendable and change.setting != "topic"]
    if missing:
        _create(kafka, missing, replication)
    if alterable:
        _alter(kafka, alterable)
    if refused := [change for change in differences if not change.mendable]:
        raise _mismatch(refused, mended=len(missing) + len(alterable))
    return differences


def verify_topics(kafka: Kafka, topics: Iterable[Topic]) -> None:
    """Called at the start of every process. Raises TopicMismatch for a missing topic or a wrong partition count.

    A broker that has just started, or come back, denies for a moment topics that exist: it is asked again for a while.
    """
    wanted = list(topics)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (wrong := _wrong(kafka, wanted)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if wrong:
        raise _mismatch(wrong, mended=0)


def _wrong(kafka: Kafka, topics: Iterable[Topic]) -> list[Drift]:
    listed = _listed(kafka)
    wrong: list[Drift] = []
    for topic in topics:
        found = listed.get(kafka.physical(topic))
        if found is None:
            wrong.append(Drift(topic.name, "topic", f"{topic.partitions} partitions", None, True))
        elif len(found.partitions) != topic.partitions:
            wrong.append(Drift(topic.name, "partitions", str(topic.partitions), str(len(found.partitions)), False))
    return wrong


def retention_ms(topic: Topic) -> int:
    """The topic's retention as Kafka spells it."""
    return _FOR_EVER_MS if topic.retention is None else int(topic.retention.total_seconds() * 1_000)


def cleanup_policy(topic: Topic) -> str:
    """What Kafka does with old records. A compacted topic forgets too: what nobody repeats goes."""
    return "compact,delete" if topic.compacted else "delete"


def timestamp_type(topic: Topic) -> str:
    """Whose clock the records' time is of."""
    return "LogAppendTime" if topic.log_time else "CreateTime"


def min_insync_replicas(replication: int) -> int:
    """How many copies a record must have before it counts as written: all but one, so that one broker may be away."""
    return max(1, replication - 1)


def _listed(kafka: Kafka) -> dict[str, TopicMetadata]:
    """Every topic of the cluster, by its name there."""
    try:
        return kafka.admin().list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise kafka.mapped(error, asked="The topics were to be listed.") from error


def _create(kafka: Kafka, topics: list[Topic], replication: int | None) -> None:
    in_sync = {} if replication is None else {_IN_SYNC: str(min_insync_replicas(replication))}
    new = [
        NewTopic(
            kafka.physical(topic),
            num_partitions=topic.partitions,
            replication_factor=-1 if replication is None else replication,
            config={
                "retention.ms": str(retention_ms(topic)),
                _CLEANUP: cleanup_policy(topic),
                _TIMESTAMP: timestamp_type(topic),
                _COMPRESSION: topic.compression,
                **in_sync,
            },
        )
        for topic in topics
    ]
    _wait(kafka, kafka.admin().create_topics(new, operation_timeout=_SECONDS), "Topics were to be created.")
    deadline = time.monotonic() + _SECONDS
    # The controller has them; a broker learns of them a moment later, and until then denies that they exist.
    while not {topic.topic for topic in new} <= _listed(kafka).keys() and time.monotonic() < deadline:
        time.sleep(0.02)


def _alter(kafka: Kafka, changes: list[Drift]) -> None:
    resources: dict[str, ConfigResource] = {}
    for change in changes:
        name = kafka.physical(change.topic)
        entry = ConfigEntry(change.setting, change.expected, incremental_operation=AlterConfigOpType.SET)
        resources.setdefault(name, ConfigResource(ResourceType.TOPIC, name)).add_incremental_config(entry)
    _wait(kafka, kafka.admin().incremental_alter_configs([*resources.values()]), "Topic settings were to be altered.")


def _wait(kafka: Kafka, futures: Mapping[Any, Future[Any]], asked: str) -> None:
    for future in futures.values():
        try:
            future.result(timeout=_SECONDS)
        except KafkaException as error:
            # Another process applied the same catalogue at the same time.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise kafka.mapped(error, asked=asked) from error


def _mismatch(changes: list[Drift], *, mended: int) -> TopicMismatch:
    missing = [change for change in changes if change.found is None]
    lines = [
        f"topic {change.topic} is missing (expected {change.expected})"
        if change.found is None
        else f"topic {change.topic} has {change.setting} {change.found}, expected {change.expected}"
        for change in changes
    ]
    advice = ["Run `headwater topics apply`."] if missing else []
    if any(change.setting == "replication" for change in changes):
        advice.append("Copies are added with Kafka's own kafka-reassign-partitions; then apply again.")
    if any(change.setting == "partitions" for change in changes):
        advice.append(
            "`headwater topics apply` refuses this: a partition count decides where each key goes, so it is never "
            "changed in place. Recreate the topic while every group that uses it is stopped and has no lag."
        )
    return TopicMismatch(
        "The cluster's topics differ from the catalogue: " + "; ".join(lines) + ".",
        kept=f"{mended} other differences were mended." if mended else "Nothing was changed.",
        advice=" ".join(advice),
        topics=tuple(change.topic for change in changes),
    )
