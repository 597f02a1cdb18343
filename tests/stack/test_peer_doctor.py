from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import BadSettings
from headwater.stack import peer_doctor as doctor
from headwater.stack.doctor import GIB, Check, Level

HERE = {"is_folder": True, "writable": True, "free_bytes": 9 * GIB, "quota_bytes": None}


@pytest.mark.parametrize(
    ("check", "level"),
    [
        (doctor.check_key(True), "ok"),
        (doctor.check_key(False), "fail"),
        (doctor.check_folder(Path("/srv"), **HERE), "ok"),
        (doctor.check_folder(Path("/srv"), **HERE | {"quota_bytes": 9 * GIB}), "ok"),
        (doctor.check_folder(Path("/srv"), **HERE | {"quota_bytes": 10 * GIB}), "warn"),
        (doctor.check_folder(Path("/srv"), **HERE | {"writable": False}), "fail"),
        (doctor.check_folder(Path("/srv"), **HERE | {"is_folder": False}), "fail"),
        (doctor.check_rack("node-7", "r7"), "ok"),
        (doctor.check_rack("node-7", ""), "warn"),
        (doctor.check_rack("node-7", "", BadSettings("racks.toml is no TOML", advice="Correct it.")), "fail"),
        (doctor.check_listener(0, "free"), "ok"),
        (doctor.check_listener(9500, "free"), "ok"),
        (doctor.check_listener(9500, "ours"), "ok"),
        (doctor.check_listener(9500, "other"), "fail"),
        (doctor.check_link("eth0", 1500, 0), "ok"),
        (doctor.check_backlog(4096), "ok"),
        (doctor.check_backlog(128), "warn"),
        (doctor.check_descriptors(1024, 256), "ok"),
        (doctor.check_descriptors(256, 256), "warn"),
    ],
)
def test_each_finding_has_its_level_and_every_bad_one_a_fix(check: Check, level: Level) -> None:
    assert check.level == level
    assert check.found
    assert bool(check.fix) == (level != "ok")


def test_a_link_says_what_its_packets_leave_for_payload() -> None:
    # 1448 of 1538 bytes on the wire, 8948 of 9038: headers of Ethernet, IP and TCP with timestamps.
    assert doctor.check_link("eth0", 1500, 25_000).found == "eth0: 25 Gbit/s, MTU 1500: 94.1% of it is payload at best"
    assert "99.0%" in doctor.check_link("eth0", 9000, 0).found


def test_a_host_without_a_folder_for_casts_is_no_peer() -> None:
    assert doctor.examine_peer(PeerConfig(), "127.0.0.1:9092", running=False) == []


def test_this_host_is_measured(tmp_path: Path) -> None:
    config = PeerConfig(into=tmp_path / "casts" / "models", key="k" * 16)
    checks = {check.name: check for check in doctor.examine_peer(config, "127.0.0.1:9092", running=False)}
    measured = ("key", "folder", "rack", "port", "link", "backlog", "descriptors")
    assert list(checks) == [f"peer {name}" for name in measured]
    assert "GiB free" in checks["peer folder"].found
    assert checks["peer link"].found.startswith("lo: ")
    assert not (tmp_path / "casts").exists(), "looking makes nothing"


def test_the_rack_is_the_one_that_the_peer_would_have(tmp_path: Path) -> None:
    racks = tmp_path / "racks.toml"

    def rack(host: str) -> Check:
        config = PeerConfig(into=tmp_path, host=host, topology_file=racks)
        return next(check for check in doctor.examine_peer(config, None, running=False) if check.name == "peer rack")

    assert rack("node-7").level == "fail"
    racks.write_text('node-7 = "r7"\n')
    assert rack("node-7").found == "node-7 is in r7"
    assert rack("node-8").level == "warn"


def test_a_file_in_the_folders_place_and_a_port_that_is_taken_fail(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with socket.socket() as stranger:
        stranger.bind(("0.0.0.0", 0))
        stranger.listen()
        config = PeerConfig(into=tmp_path / "models", port=stranger.getsockname()[1])
        found = {check.name: check for check in doctor.examine_peer(config, None, running=False)}
        ours = {check.name: check for check in doctor.examine_peer(config, None, running=True)}
    assert [found[name].level for name in ("peer key", "peer folder", "peer port")] == ["fail"] * 3
    assert ours["peer port"].level == "ok"
    assert "peer link" not in found, "nobody knows yet where the brokers are"
