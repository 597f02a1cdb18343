"""Records that a newer release wrote, while this process is still the old one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headwater.rules.errors import HeadwaterError
from headwater.schemas import codec
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import DEAD_LETTERS, Topic
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.runtime.state import Phase

ORDERS = Topic("orders", ObjectStored, "hash", 4)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 4)


class Till:
    name = "upgraded"
    reads = (ORDERS,)
    writes = (RECEIPTS,)
    limits = BatchLimits(records=20)

    def process(self, batch: Batch) -> Sequence[Output]:
        return [Output(RECEIPTS, one.record, cause=one) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"buried {dead}: {error}")


def newer_schema() -> codec.PublishedSchema:
    """Our orders with one more field, under the id that comes next."""
    ours = codec.newest("object_stored")
    shape = json.loads(ours.text)
    shape["fields"].append({"name": "urgency", "type": "int", "default": 0})
    parsed = fastavro.parse_schema(shape)
    return replace(ours, id=max(codec.history()) + 1, text=json.dumps(shape), parsed=parsed)


def test_a_group_waits_at_a_newer_record_and_the_upgrade_goes_on_there(
    log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    schema = newer_schema()
    body = tmp_path / "body"
    with body.open("wb") as file:
        order = {"hash": (2).to_bytes(32, "big"), "generation": 1, "size": 2, "source": "films", "urgency": 9}
        fastavro.schemaless_writer(file, schema.parsed, order)
    log.place_orders([1])
    log.write(ORDERS, [((2).to_bytes(32, "big"), struct.pack(">bI", 0, schema.id) + body.read_bytes())])
    log.place_orders([3])

    with log.running(Till(), tmp_path) as old:
        eventually(lambda: old.state().phase is Phase.degraded, within_seconds=20)
        assert f"schema {schema.id}, which a newer release" in old.state().reason
        assert "Upgrade this process" in old.state().reason
    assert 2 not in log.receipt_numbers()
    assert log.records(DEAD_LETTERS) == []

    known = {**codec.history(), schema.id: schema}
    ours = codec.newest("object_stored")
    monkeypatch.setattr(codec, "history", lambda: known)
    monkeypatch.setattr(codec, "newest", lambda _: ours)  # what the old release read is still what this test reads
    with log.running(Till(), tmp_path):
        eventually(lambda: log.receipt_numbers() == [1, 2, 3], within_seconds=20)
    assert log.records(DEAD_LETTERS) == []
