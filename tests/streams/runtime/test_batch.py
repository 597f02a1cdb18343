"""Reading as a member of a group, through rebalances that come while partitions are paused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from headwater.streams.runtime.batch import BatchReader
from headwater.streams.runtime.processor import BatchLimits


def reader_of(log: Any, group: str) -> BatchReader:
    return BatchReader(log.kafka, group, (log.orders,), BatchLimits(records=50), count(1))


def test_partitions_that_were_taken_away_while_paused_and_came_back_are_read_again(
    log: Any, eventually: Callable[..., Any]
) -> None:
    # given a reader whose partitions are paused, because a step takes long
    log.place_orders(range(40))
    first, second = reader_of(log, "shop"), None
    try:
        eventually(first.read, within_seconds=30)
        first.pause()
        # when a second member joins, and the step ends between the loss of the partitions and the next assignment
        held = first.assignment
        second = reader_of(log, "shop")
        eventually(lambda: (second.keep_place(), first.keep_place(), not held.is_current())[-1], within_seconds=30)
        first.resume()
        # then whatever partitions come back are read
        eventually(lambda: (second.read(), first.read(), first.partitions())[-1], within_seconds=30)
        log.place_orders(range(100, 140))
        read_from: set[int] = set()

        def each_was_read() -> bool:
            second.read()
            if reading := first.read():
                read_from.update(partition for _, partition in reading.next_offsets)
            return read_from == {partition for _, partition in first.partitions()}

        eventually(each_was_read, within_seconds=20)
    finally:
        first.close()
        if second is not None:
            second.close()
