"""Moves where a consumer group reads on: only while it has no member, since a living one would commit over it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.browse import Start, resolve
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.offsets import Place
from headwater.rules.errors import HeadwaterError, NotFound, Refused

_SECONDS = 15.0
_LIVING = {KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's new place. ``before`` None: the group never committed there, and reads from its beginning."""

    topic: str
    partition: int
    before: int | None
    after: int
    beginning: int
    end: int

    @property
    def skipped(self) -> int:
        """Offsets that the group will not read; negative: that it reads again."""
        return self.after - max(self.before or 0, self.beginning)


def plan(kafka: Kafka, group: str, to: Start, only: Collection[tuple[str, int]] = ()) -> list[Move]:
    """Where each partition of the group's topics would go. Places outside of a partition are moved to its ends.

    ``only``: these partitions (the catalogue's names). Raises Refused while the group has members, NotFound where it
    never committed or does not read one of the partitions.
    """
    refuse_members(kafka, group)
    try:
        known = kafka.admin().list_consumer_group_offsets([GroupOffsets(kafka.group(group))], request_timeout=_SECONDS)
        committed = {(at.topic, at.partition): at.offset for at in known[kafka.group(group)].result().topic_partitions}
    except KafkaException as error:
        raise kafka.mapped(error, asked=f"Group {group} was to be reset.") from error
    prefix = kafka.config.prefix
    topics = {topic.removeprefix(prefix) for topic, _ in committed}
    places = [place for topic in sorted(topics) for place in offsets.partitions(kafka, topic)]
    if only:
        chosen = {(kafka.physical(topic), partition) for topic, partition in only}
        if unknown := chosen - set(places):
            raise _not_read(group, sorted(unknown)[0], prefix)
        places = [place for place in places if place in chosen]
    if not places:
        raise NotFound(
            f"group {group} has never committed anything.",
            asked=f"Group {group} was to be reset.",
            kept="Nothing was changed.",
            advice="Its first member reads from the beginning. `headwater lag` names the groups that there are.",
        )
    first, last, wanted = offsets.beginnings(kafka, places), offsets.ends(kafka, places), resolve(kafka, places, to)
    return [
        Move(
            topic=place[0].removeprefix(prefix),
            partition=place[1],
            before=committed[place] if committed.get(place, -1) >= 0 else None,
            after=min(max(wanted[place], first[place]), last[place]),
            beginning=first[place],
            end=last[place],
        )
        for place in places
    ]


def move(kafka: Kafka, group: str, moves: Sequence[Move]) -> None:
    """Commit the new places, all in one request. Raises Refused where a member joined meanwhile: Kafka checks it."""
    places = [TopicPartition(kafka.physical(one.topic), one.partition, one.after) for one in moves]
    request = [GroupOffsets(kafka.group(group), places)]
    try:
        answered = kafka.admin().alter_consumer_group_offsets(request, request_timeout=_SECONDS)
        for at in answered[kafka.group(group)].result().topic_partitions:
            if at.error is not None:
                raise KafkaException(at.error)
    except KafkaException as error:
        if error.args[0].code() in _LIVING:
            raise _refused(group, "a member joined it just now") from error
        raise kafka.mapped(error, asked=f"Group {group} was to be reset.") from error


def refuse_members(kafka: Kafka, group: str) -> None:
    """Raises Refused, with the members' names, while the group has any."""
    try:
        described = kafka.admin().describe_consumer_groups([kafka.group(group)], request_timeout=_SECONDS)
        members = described[kafka.group(group)].result().members
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return
        raise kafka.mapped(error, asked=f"Group {group} was to be reset.") from error
    if members:
        named = ", ".join(
            f"{member.client_id} on {member.host.lstrip('/')}"
            f" ({len(member.assignment.topic_partitions) if member.assignment else 0} partitions)"
            for member in members
        )
        raise _refused(group, f"it has {len(members)} living member{'' if len(members) == 1 else 's'}: {named}")


def _refused(group: str, why: str) -> HeadwaterError:
    return Refused(
        f"group {group} cannot be reset: {why}.",
        asked=f"Group {group} was to be reset.",
        kept="Nothing was changed.",
        advice="Stop its members (SIGTERM lets them finish), wait until `headwater lag` shows none, and try again.",
    )


def _not_read(group: str, place: Place, prefix: str) -> HeadwaterError:
    return NotFound(
        f"group {group} does not read {place[0].removeprefix(prefix)}/{place[1]}.",
        asked=f"Group {group} was to be reset.",
        kept="Nothing was changed.",
        advice=f"`headwater lag {group} --partitions` shows what it reads.",
    )
