"""The relay tells the log each change of a job at least once, whatever dies in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from headwater.connectors.jobs import outbox
from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.connectors.kafka.partitioning import partition_of
from headwater.rules.errors import TopicMismatch
from headwater.schemas.codec import decode
from headwater.schemas.job_records import EventState, JobEvent, JobRequested
from headwater.schemas.records import Record
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED, Topic
from headwater.streams.outbox.outbox import Outbox
from headwater.streams.outbox.relay import Relay
from tests.any_job import Place

Eventually = Callable[..., object]


def on_log(kafka: Kafka, topic: Topic) -> list[tuple[int, Record]]:
    """Partition and record of all that a topic holds."""
    beginnings = offsets.beginnings(kafka, offsets.partitions(kafka, topic.name))
    with closing(Following(kafka, beginnings)) as following:
        return [(message.partition() or 0, decode(message.value())) for message in following.catch_up()]


def states(kafka: Kafka) -> list[tuple[str, int, str]]:
    events = [record for _, record in on_log(kafka, JOBS_EVENTS)]
    return [(event.job, event.version, str(event.state)) for event in events if isinstance(event, JobEvent)]


@contextmanager
def running(place: Place, kafka: Kafka) -> Iterator[Outbox]:
    relay = Outbox(place.jobs, kafka)
    thread = Thread(target=relay.run)
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        place.jobs.wake()
        thread.join()


def test_every_change_is_told_in_the_partition_of_its_pool(place: Place, kafka: Kafka) -> None:
    job = place.submit(priority=3)
    (attempt,) = place.run(job)
    place.complete(attempt)

    with closing(Relay(place.jobs, kafka)) as relay:
        assert relay.round() == 4
        relay.settle()

    events = on_log(kafka, JOBS_EVENTS)
    assert {partition for partition, _ in events} == {partition_of(b"gpu", 12)}
    assert states(kafka) == [
        (job, 1, "queued"),
        (job, 2, "granted"),
        (job, 3, "running"),
        (job, 4, "completed"),
    ]
    ((partition, request),) = on_log(kafka, JOBS_REQUESTED)
    assert isinstance(request, JobRequested)
    assert (partition, request.job, request.priority, request.size) == (partition_of(b"gpu", 12), job, 3, "64x64")
    assert place.query("SELECT count(*) FROM outbox") == [(0,)]


def test_a_change_is_told_as_soon_as_it_is_committed(place: Place, kafka: Kafka, eventually: Eventually) -> None:
    """By its ring, not by the look that comes without one: that is made too rare to help."""
    with pytest.MonkeyPatch.context() as patch, running(place, kafka) as relay:
        patch.setattr("headwater.streams.outbox.outbox.LOOK_SECONDS", 600.0)
        eventually(lambda: relay.state().phase == "running")
        place.submit()
        eventually(lambda: place.query("SELECT seq FROM outbox") == [])
        job = place.submit()
        eventually(lambda: (job, 1, "queued") in states(kafka))


def test_what_nobody_rang_for_is_found(place: Place, kafka: Kafka, eventually: Eventually) -> None:
    with running(place, kafka), place.jobs.quiet() as transaction:
        transaction.execute(
            "INSERT INTO jobs (job, tenant, pool, model, size, seconds, request, cost_seconds) "
            "VALUES ('video_1', 'acme', 'gpu', 'm', '64x64', '2', '{}', 1)"
        )
        transaction.commit()
        eventually(lambda: ("video_1", 1, "queued") in states(kafka))


def test_count_in_is_count_out_over_deaths_between_produce_and_delete(place: Place, kafka: Kafka) -> None:
    """Case 8. A relay that dies leaves rows that are taken; their time over, another tells them again."""
    jobs = [place.submit() for _ in range(30)]
    dying = Relay(place.jobs, kafka)
    taken = dying.take()
    dying.produce(taken)
    dying.flush()  # and here it dies: told, not noted
    dying.close()
    with closing(Relay(place.jobs, kafka)) as another:
        assert another.round() == 0
        place.query("UPDATE outbox SET taken_until = now() - interval '1 second'")
        assert another.round() == 30
        another.settle()

    told = Counter(states(kafka))
    assert set(told) == {(job, 1, "queued") for job in jobs}
    assert set(told.values()) == {2}
    assert place.query("SELECT count(*) FROM outbox") == [(0,)]


def test_a_relay_that_dies_before_it_produces_loses_nothing(place: Place, kafka: Kafka) -> None:
    job = place.submit()
    with place.jobs.quiet() as transaction:
        assert len(outbox.take(transaction, 10, 0.0)) == 1
    with closing(Relay(place.jobs, kafka)) as another:
        assert another.round() == 1
    assert states(kafka) == [(job, 1, "queued")]


def test_relays_share_the_rows(place: Place, kafka: Kafka, eventually: Eventually) -> None:
    jobs = [place.submit() for _ in range(100)]
    with running(place, kafka), running(place, kafka):
        jobs += [place.submit() for _ in range(100)]
        eventually(lambda: place.query("SELECT seq FROM outbox") == [], within_seconds=60)

    assert Counter(states(kafka)) == Counter((job, 1, "queued") for job in jobs)


def test_a_job_that_changes_pools_is_told_to_both(place: Place, kafka: Kafka) -> None:
    job = place.submit()
    place.run(job)
    place.query("UPDATE jobs SET pool = 'spare', state = 'queued' WHERE job = %s", job)
    with closing(Relay(place.jobs, kafka)) as relay:
        relay.round()

    told = [(partition, record) for partition, record in on_log(kafka, JOBS_EVENTS) if isinstance(record, JobEvent)]
    moved = [(partition, event.pool) for partition, event in told if event.version == 4]
    assert sorted(moved) == sorted([(partition_of(b"gpu", 12), "spare"), (partition_of(b"spare", 12), "spare")])


def test_events_know_every_state() -> None:
    from headwater.rules.jobs.states import JobState

    assert {str(state) for state in JobState} == {str(state) for state in EventState} - {"unknown"}


def test_a_cluster_without_the_topics_is_refused(place: Place, kafka: Kafka) -> None:
    from dataclasses import replace

    bare = Kafka(replace(kafka.config, prefix=f"{kafka.config.prefix}none."))
    with pytest.raises(TopicMismatch):
        Outbox(place.jobs, bare).run()


@pytest.mark.fault
def test_a_relay_killed_after_the_log_has_it_and_before_the_database_knows(
    place: Place, kafka: Kafka, tmp_path: Path, eventually: Eventually
) -> None:
    jobs = [place.submit() for _ in range(20)]
    dying = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "relay_process.py", place.jobs.config.dsn, *_where(kafka), "note"],
        cwd=tmp_path,
    )
    assert dying.wait(120) == -signal.SIGKILL
    assert Counter(states(kafka)) == Counter((job, 1, "queued") for job in jobs)
    assert place.query("SELECT count(*) FROM outbox WHERE taken_until > now()") == [(20,)]

    place.query("UPDATE outbox SET taken_until = now()")
    with running(place, kafka):
        eventually(lambda: place.query("SELECT seq FROM outbox") == [], within_seconds=60)
    assert set(states(kafka)) == {(job, 1, "queued") for job in jobs}


def _where(kafka: Kafka) -> tuple[str, str]:
    return kafka.config.bootstrap_servers, kafka.config.prefix
