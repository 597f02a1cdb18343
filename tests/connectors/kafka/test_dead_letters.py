import multiprocessing
import os
import signal

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.dead_letters import Redrive, letter, letters
from headwater.rules.errors import Fenced, NotFound
from headwater.schemas import codec
from headwater.schemas.records import DeadLetter, Header
from headwater.schemas.topics import DEAD_LETTERS, SYNC_OBJECTS


@pytest.fixture
def kafka(stack, kafka_prefix) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, [SYNC_OBJECTS, DEAD_LETTERS])
    return kafka


def dead(offset: int, **fields) -> DeadLetter:
    given = {
        "topic": SYNC_OBJECTS.name,
        "partition": 4,
        "offset": offset,
        "group": "verify-objects",
        "original_key": b"key",
        "value": f"value {offset}".encode(),
        "headers": (Header(name="traceparent", value=b"00-1"), Header(name="empty", value=None)),
        "error": "BadRecord",
        "message": "it does not decode",
        "stack": "Traceback …",
    }
    return DeadLetter(**{**given, **fields})


def bury(kafka: Kafka, *buried: DeadLetter) -> None:
    producer = kafka.producer()
    for record in buried:
        producer.produce(kafka.physical(DEAD_LETTERS), key=record.key(), value=codec.encode(record))
    producer.flush(10)


@pytest.fixture
def returned(kafka, eventually):
    """What came back to sync.objects. A commit is acknowledged before its markers reach every partition: wait."""

    def returned(count: int) -> list:
        def enough() -> list:
            found = list(browse(kafka, SYNC_OBJECTS.name, Start("beginning")))
            return found if len(found) >= count else []

        found = eventually(enough)
        assert len(found) == count
        return found

    return returned


def all_letters(_) -> bool:
    return True


def test_letters_are_listed_and_found_by_their_origin(kafka):
    bury(kafka, dead(1), dead(2))

    assert {one.id for one in letters(kafka)} == {"sync.objects/4/1", "sync.objects/4/2"}
    assert letter(kafka, "sync.objects/4/2").record == dead(2)
    with pytest.raises(NotFound, match=r"no dead letter sync\.objects/4/3"):
        letter(kafka, "sync.objects/4/3")


def test_a_redriven_record_is_back_where_it_was_as_it_was_with_one_redrive_more(kafka, returned):
    bury(kafka, dead(7, headers=(*dead(7).headers, Header(name="headwater-redrives", value=b"2")), redrives=2))

    redriven = Redrive(kafka).run(all_letters)

    assert [one.id for one in redriven] == ["sync.objects/4/7"]
    (record,) = returned(1)
    assert (record.partition, record.key, record.value) == (4, b"key", b"value 7")
    assert record.headers == (("traceparent", b"00-1"), ("empty", None), ("headwater-redrives", b"3"))


def test_a_record_without_key_and_value_is_redriven_too(kafka, returned):
    bury(kafka, dead(1, original_key=None, value=None))

    Redrive(kafka).run(all_letters)

    (record,) = returned(1)
    assert (record.key, record.value) == (None, None)


def test_a_letter_is_redriven_once(kafka, returned, eventually):
    bury(kafka, dead(1), dead(2), dead(3))

    first = Redrive(kafka).run(lambda one: one.record.offset < 3)
    second = Redrive(kafka).run(all_letters)
    third = Redrive(kafka).run(all_letters)

    assert sorted(one.record.offset for one in first) == [1, 2]
    assert [one.record.offset for one in second] == [3]
    assert third == []
    assert sorted(one.value for one in returned(3)) == [b"value 1", b"value 2", b"value 3"]
    eventually(lambda: [one.open for one in letters(kafka)] == [False, False, False])


def test_a_record_that_two_groups_gave_up_goes_back_once(kafka, returned, eventually):
    bury(kafka, dead(1), dead(1, group="another"))

    Redrive(kafka).run(all_letters)

    assert returned(1)
    eventually(lambda: [one.open for one in letters(kafka)] == [False, False])


def test_a_letter_that_comes_after_the_redrive_is_open_again(kafka, eventually):
    bury(kafka, dead(1))
    Redrive(kafka).run(all_letters)
    bury(kafka, dead(1, group="another"))

    eventually(lambda: [one.record.group for one in letters(kafka) if one.open] == ["another"])


def test_a_second_redrive_cuts_the_first_one_off(kafka, returned):
    bury(kafka, dead(1))
    first, second = Redrive(kafka), Redrive(kafka)
    first.fence()
    chosen = first.read(all_letters)

    second.run(all_letters)

    first.read = lambda _: chosen  # what it had read before it was cut off
    first.fence = lambda: None
    with pytest.raises(Fenced):
        first.run(all_letters)
    assert returned(1)


def test_ten_thousand_letters_are_redriven_by_a_filter_each_once(kafka, returned, eventually):
    bury(kafka, *(dead(number, error="Corrupt" if number % 2 else "BadRecord") for number in range(10_000)))

    redriven = Redrive(kafka).run(lambda one: one.record.error == "Corrupt")

    assert len(redriven) == 5_000
    back = [int(one.value.split()[1]) for one in returned(5_000)]
    assert sorted(back) == list(range(1, 10_000, 2))
    eventually(lambda: sum(one.open for one in letters(kafka)) == 5_000, within_seconds=30)


def test_a_letter_that_had_no_room_for_its_record_returns_the_whole_of_it(kafka, returned):
    producer = kafka.producer()
    producer.produce(kafka.physical(SYNC_OBJECTS), b"whole" * 100, b"whole key", 4, headers=[("colour", b"red")])
    producer.flush(10)
    bury(kafka, dead(0, original_key=b"whole", value=b"who", headers=(), cut_bytes=500))

    Redrive(kafka).run(all_letters)

    original, back = returned(2)
    assert (back.key, back.value) == (original.key, original.value) == (b"whole key", b"whole" * 100)
    assert dict(back.headers) == {"colour": b"red", "headwater-redrives": b"1"}


def test_a_cut_letter_whose_record_is_gone_stays_open_and_says_so(kafka):
    bury(kafka, dead(17, cut_bytes=500))
    with pytest.raises(NotFound, match=r"topic no longer has it.*stays open"):
        Redrive(kafka).run(all_letters)
    assert [one.open for one in letters(kafka)] == [True]


def test_a_rate_is_held_between_transactions_never_within_one(kafka, returned):
    bury(kafka, *(dead(number) for number in range(25)))
    waited: list[float] = []
    committed_before: list[int] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        committed_before.append(len(list(browse(kafka, SYNC_OBJECTS.name, Start("beginning")))))

    Redrive(kafka).run(all_letters, per_second=10, sleep=sleep)

    assert waited == [1.0, 1.0]
    assert len(committed_before) == 2
    assert returned(25)


@pytest.mark.fault
@pytest.mark.parametrize("step", ["fence", "read", "send", "commit"])
def test_a_redrive_that_is_killed_after_a_step_returns_each_record_once(kafka, returned, step):
    bury(kafka, dead(1), dead(2))
    child = multiprocessing.get_context("spawn").Process(target=die_after, args=(kafka.config, step))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL

    redriven = Redrive(kafka).run(all_letters)

    assert len(redriven) == (0 if step == "commit" else 2)
    assert sorted(one.value for one in returned(2)) == [b"value 1", b"value 2"]


def die_after(config: KafkaConfig, step: str) -> None:
    redrive = Redrive(Kafka(config))
    real = getattr(redrive, step)

    def deadly(*arguments):
        real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(redrive, step, deadly)
    redrive.run(all_letters)
