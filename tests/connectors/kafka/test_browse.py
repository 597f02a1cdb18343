from datetime import UTC, datetime, timedelta

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.browse import Start, browse, key_text, start_at
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import BadSettings, NotFound
from headwater.schemas import codec
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import SYNC_OBJECTS

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
HOUR_AGO_MS = 1_700_000_000_000


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [SYNC_OBJECTS])
    return kafka


def stored(number: int) -> ObjectStored:
    return ObjectStored(hash=bytes([number]) * 32, generation=1, size=number, source="photos")


def produce(kafka: Kafka, values: list[bytes | None], partition: int = 0, start_ms: int = HOUR_AGO_MS) -> None:
    producer = kafka.producer()
    for number, value in enumerate(values):
        producer.produce(
            kafka.physical(SYNC_OBJECTS),
            key=bytes([number]) * 32,
            value=value,
            partition=partition,
            timestamp=start_ms + 1000 * number,
            headers=[("traceparent", b"00-1"), ("empty", None)],
        )
    producer.flush(10)


BEGINNING = Start("beginning")


def read(kafka: Kafka, start: Start = BEGINNING, **more) -> list:
    return list(browse(kafka, SYNC_OBJECTS.name, start, **more))


def test_records_are_decoded_and_garbage_is_shown_as_such(kafka):
    produce(
        kafka, [codec.encode(stored(1)), b"garbage", None, b"", b"\x00\x00\x00\x00\x03\xff", codec.encode(stored(2))]
    )

    seen = read(kafka)

    assert [one.record for one in seen] == [stored(1), None, None, None, None, stored(2)]
    assert [one.problem for one in seen][:3] == [
        "",
        "the value starts with byte 0x67, not with 0x00 of the Confluent wire format",
        "no value (a tombstone)",
    ]
    assert all(one.problem for one in seen[1:5])
    assert [one.offset for one in seen] == [0, 1, 2, 3, 4, 5]
    assert seen[0].timestamp_ms == HOUR_AGO_MS
    assert seen[0].headers == (("traceparent", b"00-1"), ("empty", None))


def test_every_partition_is_read_to_where_it_ended(kafka):
    produce(kafka, [codec.encode(stored(n)) for n in range(5)], partition=3)
    produce(kafka, [codec.encode(stored(n)) for n in range(5)], partition=7)

    seen = read(kafka)

    assert sorted((one.partition, one.offset) for one in seen) == [(p, o) for p in (3, 7) for o in range(5)]


def test_a_topic_that_ends_with_markers_of_transactions_ends(kafka):
    producer = kafka.transactional_producer("writer")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(kafka.physical(SYNC_OBJECTS), value=codec.encode(stored(1)), partition=0)
    producer.flush(10)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(kafka.physical(SYNC_OBJECTS), value=codec.encode(stored(2)), partition=0)
    producer.flush(10)
    producer.abort_transaction(30)

    assert [one.record for one in read(kafka)] == [stored(1)]


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (Start("beginning"), [0, 1, 2, 3]),
        (Start("end"), []),
        (Start("offset", 2), [2, 3]),
        (Start("offset", 9), []),
        (Start("time", HOUR_AGO_MS + 2500), [3]),
        (Start("time", HOUR_AGO_MS + 9000), []),
    ],
)
def test_reading_starts_where_it_was_told(kafka, start, offsets):
    produce(kafka, [codec.encode(stored(n)) for n in range(4)])

    assert [one.offset for one in read(kafka, start)] == offsets


def test_reading_stops_at_the_limit_of_what_is_wanted(kafka):
    produce(kafka, [codec.encode(stored(n)) for n in range(6)])

    seen = read(kafka, wanted=lambda one: one.record.size % 2 == 1, limit=2)

    assert [one.record.size for one in seen] == [1, 3]


def test_following_shows_what_comes_after_the_end(kafka):
    produce(kafka, [codec.encode(stored(1))])
    following = browse(kafka, SYNC_OBJECTS.name, Start("beginning"), follow=True)

    assert next(following).record == stored(1)
    produce(kafka, [codec.encode(stored(2))], partition=5)
    assert next(following).record == stored(2)
    following.close()


def test_a_missing_topic_is_named_beside_those_that_there_are(kafka):
    with pytest.raises(NotFound, match=r"no topic sync\.object\. There are: sync\.objects\."):
        list(browse(kafka, "sync.object", Start("beginning")))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start("beginning")),
        ("end", Start("end")),
        ("17", Start("offset", 17)),
        ("-5m", Start("time", int((NOW - timedelta(minutes=5)).timestamp() * 1000))),
        ("-2d", Start("time", int((NOW - timedelta(days=2)).timestamp() * 1000))),
        ("2026-11-30T07:30:00+00:00", Start("time", int((NOW - timedelta(minutes=30)).timestamp() * 1000))),
    ],
)
def test_a_start_is_an_end_an_offset_a_time_or_a_time_ago(text, start):
    assert start_at(text, NOW) == start


@pytest.mark.parametrize("text", ["", "middle", "-5", "5m", "-5w", "2026-13-01"])
def test_any_other_start_is_refused_with_the_forms(text):
    with pytest.raises(BadSettings, match="beginning, end, an offset"):
        start_at(text, NOW)


def test_keys_are_readable():
    assert key_text("fs.changes.lab", b"photos\x00a/b\xff\n.jpg") == "photos/a/b\\xff\\n.jpg"
    assert key_text("fs.changes.lab", b"photos\x00" + b"p" * 25) == "photos/" + "p" * 25
    assert key_text("sync.objects", b"\x01\x00" * 16) == "0100" * 16
    assert key_text("dead.letters", b"fs.changes.lab/3/7") == "fs.changes.lab/3/7"
    assert key_text("sync.objects", None) == "(no key)"
