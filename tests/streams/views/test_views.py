"""The views on the real log: right by arithmetic, the same after kill -9, and the same when made anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from headwater.connectors.kafka.newest import newest
from headwater.rules.errors import Refused
from headwater.schemas.codec import encode
from headwater.schemas.records import GroupView, Stage
from headwater.schemas.topics import VIEWS_GROUPS, VIEWS_SAMPLES
from headwater.streams.views.rebuild import rebuild

T0 = int(time.time()) // 60 * 60 - 3600
"""Where the script begins: an hour ago, at a full minute."""

END = T0 + 420
LAST = END - 10
"""The last word falls in the bucket that begins here, and what is before it is told."""


@pytest.fixture
def script(Speaking: Any) -> list[tuple[float, Any]]:
    """Seven minutes of a fleet.

    upload-files   10 records a second; killed at 200 s, started anew at 215 s, from then on 4 a second
    verify         2 records a second, on another host, silent from 300 s on
    commit         100 records at once at 390 s
    """
    uploader = Speaking("upload-files.lab", Stage.uploaded, T0)
    again = Speaking("upload-files.lab", Stage.uploaded, T0 + 215)
    verifier = Speaking("verify-objects", Stage.verified, T0, host="b")
    committer = Speaking("commit-main", Stage.committed, T0)
    words = [
        *uploader.words(T0, T0 + 200, lambda at: (at - T0) * 10),
        *again.words(T0 + 215, END, lambda at: (at - T0 - 215) * 4),
        *verifier.words(T0, T0 + 300, lambda at: (at - T0) * 2),
        *committer.words(T0, END, lambda at: 100 if at >= T0 + 390 else 0),
        (T0 + 101.0, b"no record of ours"),
    ]
    return sorted(words, key=lambda word: word[0])


def told_until(log: Any, at: int) -> bool:
    """Whether the views reached a time: asked while they are being written."""
    views = [view for view in newest(log.kafka, VIEWS_GROUPS).values() if isinstance(view, GroupView)]
    return any(view.at_us >= at * 1_000_000 for view in views)


def run_to_the_end(log: Any, eventually: Callable[..., Any]) -> None:
    child = log.start()
    eventually(lambda: told_until(log, LAST), within_seconds=60)
    said = log.stop(child)
    assert "Traceback" not in said
    assert "views.starting_over" not in said


def test_rates_silence_and_garbage_are_told_as_arithmetic_says(
    make_fleet_log: Any, kafka_prefix: str, script: Any, eventually: Any
) -> None:
    log = make_fleet_log(kafka_prefix)
    log.write(script)

    run_to_the_end(log, eventually)

    stages, groups = log.stages(), log.groups()
    # Words at 60, 65, … are the last ones before a full bucket ends: at T0 + 120 what was said at 115 and at 55 counts.
    steady = stages["uploaded", T0 + 120]
    assert (steady.minute_records, steady.minute_bytes) == (600 / 60, 600_000 / 60)
    assert steady.five_minutes_records == 1150 / 300
    # The kill: 1,950 were said by the first start; the second had said (395 - 215) * 4 = 720 at T0 + 400.
    assert stages["uploaded", T0 + 400].five_minutes_records == (1950 - 950 + 720) / 300
    assert stages["uploaded", LAST].minute_records == 4
    assert stages["verified", T0 + 300].minute_records == 2
    assert stages["verified", LAST].minute_records == 0
    assert (stages["committed", T0 + 390].minute_records, stages["committed", T0 + 400].minute_records) == (0, 100 / 60)

    assert groups["verify-objects", T0 + 320].state == "running"
    silent = groups["verify-objects", LAST]
    assert (silent.state, silent.since_us, silent.silent) == ("silent", (T0 + 300) * 1_000_000, 1)
    assert "from b" in silent.reason
    replaced = groups["upload-files.lab", LAST]
    assert (replaced.state, replaced.members, replaced.verdict) == ("running", 1, "ok")


@pytest.mark.fault
def test_a_kill_between_processing_and_commit_changes_nothing_that_is_told(
    make_fleet_log: Any, kafka_prefix: str, script: Any, eventually: Any
) -> None:
    undisturbed, disturbed = make_fleet_log(f"{kafka_prefix}a."), make_fleet_log(f"{kafka_prefix}b.")
    for log in (undisturbed, disturbed):
        log.write(script)
    run_to_the_end(undisturbed, eventually)

    for die_in in (12, 25):
        child = disturbed.start(die_in)
        assert child.wait(60) == -9
    assert not told_until(disturbed, LAST)
    run_to_the_end(disturbed, eventually)

    assert disturbed.stages() == undisturbed.stages()
    assert disturbed.groups() == undisturbed.groups()
    assert len(disturbed.read(VIEWS_GROUPS)) > len(undisturbed.read(VIEWS_GROUPS)), "something was done again"


def test_views_made_anew_are_the_same_and_know_nothing_that_is_not_on_the_log(
    make_fleet_log: Any, kafka_prefix: str, script: Any, eventually: Any, Speaking: Any
) -> None:
    log = make_fleet_log(kafka_prefix)
    log.write(script)
    run_to_the_end(log, eventually)
    before = log.groups()
    # A row that no word on the log accounts for.
    at, said = Speaking("ghost", Stage.uploaded, T0).word(END - 20, 1_000_000)
    producer = log.kafka.producer()
    key = f"{said.incarnation}/{int(at) // 10}".encode()
    producer.produce(log.kafka.physical(VIEWS_SAMPLES), encode(said), key, 0)
    producer.flush(30)
    producer.close()

    rebuild(log.kafka)
    assert log.read(VIEWS_SAMPLES) == []
    told = len(log.read(VIEWS_GROUPS))
    child = log.start()
    eventually(lambda: len(log.read(VIEWS_GROUPS)) == 2 * told, within_seconds=60)
    with pytest.raises(Refused, match="living member"):
        rebuild(log.kafka)
    log.stop(child)

    assert log.groups() == before


def test_a_second_views_process_waits_and_takes_over(
    make_fleet_log: Any, kafka_prefix: str, script: Any, eventually: Any, Speaking: Any
) -> None:
    log = make_fleet_log(kafka_prefix)
    log.write(script)
    first, second = log.start(), log.start()
    eventually(lambda: told_until(log, LAST), within_seconds=60)
    log.stop(first)
    verifier = Speaking("verify-objects", Stage.verified, T0 + 450, host="b")

    log.write(verifier.words(T0 + 450, T0 + 480, lambda _: 0))

    eventually(lambda: told_until(log, T0 + 470), within_seconds=60)
    log.stop(second)
    assert log.groups()["verify-objects", T0 + 470].state == "running"
