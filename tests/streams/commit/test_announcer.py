"""What lies on dataset.versions besides announcements."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from headwater.connectors.kafka.browse import as_seen, messages
from headwater.rules.errors import NewerRecord
from headwater.schemas import codec
from headwater.schemas.records import DatasetVersion
from headwater.schemas.topics import DATASET_VERSIONS


def put(world: Any, value: bytes | None) -> None:
    producer = world.kafka.producer()
    producer.produce(world.kafka.physical(DATASET_VERSIONS), value, world.dataset.encode())
    assert producer.flush(10) == 0


def versions(world: Any) -> list[int]:
    topic = world.kafka.physical(DATASET_VERSIONS)
    seen = [as_seen(topic, message).record for message in messages(world.kafka, {(topic, 0): 0})]
    return [record.version for record in seen if isinstance(record, DatasetVersion) and record.dataset == world.dataset]


def test_garbage_between_announcements_hides_none(world: Any, eventually: Callable[..., Any]) -> None:
    for number in (1, 2):
        for value in (None, b"", b"garbage", struct.pack(">bI", 0, 3) + b"\xff"):
            put(world, value)
        world.write(b"a", b"%d" % number)
        world.start(changes=1)
        eventually(lambda number=number: versions(world) == [*range(1, number + 1)], within_seconds=30)
        assert not world.stop()


def test_an_announcement_of_a_newer_release_ends_the_committer_and_asks_for_the_upgrade(
    world: Any, eventually: Callable[..., Any]
) -> None:
    put(world, struct.pack(">bI", 0, max(codec.history()) + 1) + b"?")
    world.write(b"a", b"a")
    world.start(changes=1)
    eventually(lambda: not world._running[1].is_alive(), within_seconds=30)
    (error,) = world.stop()
    assert isinstance(error, NewerRecord)
    assert "Upgrade this process" in error.advice
    assert versions(world) == []
