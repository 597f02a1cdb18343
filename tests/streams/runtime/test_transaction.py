"""What a transaction shows to whom."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaException

from headwater.connectors.kafka import offsets
from headwater.rules.errors import Fenced
from headwater.streams.runtime.batch import BatchReader
from headwater.streams.runtime.processor import BatchLimits
from headwater.streams.runtime.step import Finished
from headwater.streams.runtime.transaction import BatchTransaction


def test_what_an_aborted_transaction_wrote_by_key_is_on_the_log_and_nobody_sees_it(log: Any, eventually: Any) -> None:
    log.place_orders(range(20))
    reader = BatchReader(log.kafka, "careful", [log.orders], BatchLimits(), count(1))
    held = BatchTransaction(log.kafka, "careful.here.0")
    try:
        reading = eventually(reader.read, within_seconds=30)
        name = log.kafka.physical(log.receipts)
        outputs = [(name, b"receipt", bytes([number]), []) for number in range(100)]
        finished = Finished(reading, outputs, 0.0)
        held._begin()
        held._produce(outputs)
        held._flush()
        places = [(name, partition) for partition in range(log.receipts.partitions)]
        written = offsets.high_watermarks(log.kafka, places)
        assert min(written.values()) > 0, "the keys reach every partition"
        assert set(offsets.ends(log.kafka, places).values()) == {0}, "and are nobody's to read yet"

        heir = BatchTransaction(log.kafka, "careful.here.0")  # aborts what it finds open
        with pytest.raises(KafkaException) as refused:
            held._commit()
        assert isinstance(log.kafka.mapped(refused.value), Fenced)

        eventually(lambda: offsets.ends(log.kafka, places) == offsets.high_watermarks(log.kafka, places))
        assert log.messages(log.receipts) == []
        assert log.committed("careful") == {}
        heir.write(finished)
        assert len(eventually(lambda: log.messages(log.receipts))) == 100
        heir.close()
    finally:
        reader.close()
        held.close()
