"""``headwater fleet``: what the views on the log say, for people and programs."""

import re
import time
from dataclasses import replace

import pytest

from headwater.connectors.kafka import topics
from headwater.schemas.codec import encode
from headwater.schemas.records import GroupView, Stage, StageView
from headwater.schemas.topics import VIEWS_GROUPS, VIEWS_STAGES

pytestmark = pytest.mark.stack
NOW_US = int(time.time()) * 1_000_000
STAGE = StageView(
    stage=Stage.uploaded, at_us=NOW_US, members=3, minute_records=12.5, minute_bytes=3 * 1024 * 1024,
    five_minutes_records=10.0, five_minutes_bytes=1024.0, waiting=1_234, oldest_us=NOW_US - 90_000_000,
)  # fmt: skip
GROUP = GroupView(
    group="upload-files.lab", stage=Stage.uploaded, at_us=NOW_US, state="silent", reason="nothing heard from vault-7",
    since_us=NOW_US - 60_000_000, members=1, silent=1, minute_records=0.0, minute_bytes=0.0, five_minutes_records=0.0,
    five_minutes_bytes=0.0, waiting=7, oldest_us=None, verdict="stopped", drain_seconds=None, slowest="", retries=4,
    dead_letters=0,
)  # fmt: skip


@pytest.fixture
def written(on_stack):
    """Writes views; the older ones first."""
    topics.apply(on_stack, (VIEWS_STAGES, VIEWS_GROUPS))

    def written(*views) -> None:
        producer = on_stack.producer()
        for view in views:
            topic = VIEWS_STAGES if isinstance(view, StageView) else VIEWS_GROUPS
            producer.produce(on_stack.physical(topic), encode(view), view.key(), timestamp=view.at_us // 1_000)
        assert producer.flush(30) == 0
        producer.close()

    return written


def test_the_newest_view_of_each_stage_and_group_is_shown(written, command):
    older = replace(STAGE, at_us=NOW_US - 10_000_000, minute_records=99.0)
    forgotten = replace(GROUP, group="upload-files.old", at_us=NOW_US - 3_600_000_000)
    written(forgotten, older, STAGE, GROUP)

    shown = command("fleet")
    told = command("fleet", "--json").json

    assert shown.code == 0, shown.err
    assert "uploaded" in shown.out
    assert "12/s" in shown.out
    assert "3.0 MiB/s" in shown.out
    assert "1 min 30 s" in shown.out
    assert "upload-files.lab silent: nothing heard from vault-7, last 1 min 0 s ago" in shown.out
    [stage], [group] = told["stages"], told["groups"]
    assert (stage["stage"], stage["minute_records"], stage["waiting"]) == ("uploaded", 12.5, 1_234)
    assert (group["group"], group["state"], group["retries"]) == ("upload-files.lab", "silent", 4)
    assert told["at"] == NOW_US / 1_000_000


def test_old_views_say_that_they_are_old(written, command):
    now_us = int(time.time()) * 1_000_000  # the module may have been read long ago
    written(replace(STAGE, at_us=now_us - 600_000_000))

    shown = command("fleet")

    assert re.search(r"This is how it was 1\d min", shown.out)
    assert "headwater logs views" in shown.out


@pytest.mark.usefixtures("written")
def test_without_views_it_says_who_makes_them(command):
    shown = command("fleet")

    assert shown.code == 66
    assert "headwater run views" in shown.err
