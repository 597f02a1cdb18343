"""The views on the real log: right by arithmetic, the same after kill -9, and the same when made anew."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headwater.rules.errors import Refused
from headwater.schemas.records import Stage
from headwater.schemas.topics import VIEWS_GROUPS, VIEWS_SAMPLES
from headwater.streams.views.rebuild import rebuild

T0 = int(time.time()) // 60 * 60 - 3600
"""Where the script begins: an hour ago, at a full minute."""

END = T0 + 420
LAST = END - 10
"""The last word falls in the bucket that begins here, and what is before it is told."""


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def undisturbed(make_fleet_log: Any, script: Any, eventually: Any) -> Any:
    """The log of a views process that read the script without any trouble."""
    log = make_fleet_log()
    log.write(script)
    log.run_until(LAST, eventually)
    return log


def test_rates_silence_and_garbage_are_told_as_arithmetic_says(undisturbed: Any) -> None:
    stages, groups = undisturbed.stages(), undisturbed.groups()

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
    undisturbed: Any, make_fleet_log: Any, script: Any, eventually: Any
) -> None:
    log = make_fleet_log()
    log.write(script)

    assert log.start(die_in=25).wait(90) == -9
    assert not log.tells_of(LAST)
    log.run_until(LAST, eventually)

    assert log.stages() == undisturbed.stages()
    assert log.groups() == undisturbed.groups()
    assert len(log.read(VIEWS_GROUPS)) > len(undisturbed.read(VIEWS_GROUPS)), "something was done again"


def test_views_made_anew_are_the_same_and_know_nothing_that_is_not_on_the_log(
    undisturbed: Any, eventually: Any, Speaking: Any
) -> None:
    log = undisturbed
    before, told = log.groups(), len(log.read(VIEWS_GROUPS))
    at, ghost = Speaking("ghost", Stage.uploaded, T0).word(END - 20, 1_000_000)
    log.put_row(at, ghost)

    rebuild(log.kafka)

    assert log.read(VIEWS_SAMPLES) == []
    child = log.start()
    eventually(lambda: len(log.read(VIEWS_GROUPS)) == 2 * told, within_seconds=90)
    with pytest.raises(Refused, match="living member"):
        rebuild(log.kafka)
    log.stop(child)
    assert log.groups() == before


def test_a_second_views_process_waits_and_takes_over(
    make_fleet_log: Any, script: Any, eventually: Any, Speaking: Any
) -> None:
    log = make_fleet_log()
    log.write(script)
    first, second = log.start(), log.start()
    eventually(lambda: log.tells_of(LAST), within_seconds=90)
    log.stop(first)
    verifier = Speaking("verify-objects", Stage.verified, T0 + 450, host="b")

    log.write(verifier.words(T0 + 450, T0 + 480, lambda _: 0))

    eventually(lambda: log.tells_of(T0 + 470), within_seconds=90)
    log.stop(second)
    assert log.groups()["verify-objects", T0 + 470].state == "running"
