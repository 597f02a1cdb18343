"""The units: accepted by systemd, with command lines and settings that are ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from headwater.cli.app import app
from headwater.cli.errors import EXIT_CODES
from headwater.settings import load
from headwater.stack.description import compose_file

UNITS = sorted(compose_file("systemd").glob("*.service"))
PROGRAM = "/opt/headwater/bin/headwater"
unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)


def values(path: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", path.read_text("utf-8"), re.MULTILINE)


def test_each_kind_of_process_has_a_unit() -> None:
    assert [path.name for path in UNITS] == [
        "headwater-agent@.service",
        "headwater-api.service",
        "headwater-commit@.service",
        "headwater-member@.service",
        "headwater-peer.service",
        "headwater-worker@.service",
    ]


@unit
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_without_a_word(path: Path, tmp_path: Path) -> None:
    # It looks whether the program is there.
    copy = tmp_path / path.name
    copy.write_text(path.read_text("utf-8").replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if path.name.partition("@")[0] in line]
    assert (done.returncode, said) == (0, [])


@unit
def test_the_unit_runs_a_command_line_that_ours_understands(path: Path) -> None:
    [line] = values(path, "ExecStart")
    program, command, *arguments = _filled(line).split()
    assert program == PROGRAM
    group: Any = typer.main.get_command(app)
    group.commands[command].make_context(command, arguments)


def _filled(line: str) -> str:
    return line.replace("${ROOT}", "/mnt/films").replace("${MODEL}", "command").replace("%i", "films")


@unit
def test_the_units_environment_is_settings_of_ours(path: Path, tmp_path: Path) -> None:
    given = dict(line.split("=", 1) for line in values(path, "Environment"))
    assert given.pop("HEADWATER_CONFIG") == "/etc/headwater/headwater.toml"
    assert load(environment=given, folder=tmp_path).state_folder == Path("/var/lib/headwater")
    assert values(path, "StateDirectory") == ["headwater"]


@unit
def test_a_unit_starts_again_after_all_but_what_only_a_person_can_mend(path: Path) -> None:
    assert values(path, "Restart") == ["on-failure"]
    [codes] = values(path, "RestartPreventExitStatus")
    assert {EXIT_CODES[int(code)] for code in codes.split()} == {
        "another owner is newer (fenced)",
        "settings or topics are wrong",
    }
    assert int(values(path, "TimeoutStopSec")[0]) > 30, "a member drains for 30 s"


@unit
def test_a_unit_has_no_power_that_it_does_not_need(path: Path) -> None:
    needed = {
        "headwater-agent@": ["CAP_DAC_READ_SEARCH CAP_LEASE"],
        "headwater-member@": ["CAP_DAC_READ_SEARCH"],
        "headwater-commit@": [""],
        "headwater-peer": [""],
        "headwater-api": [""],
        "headwater-worker@": [""],
    }
    assert values(path, "CapabilityBoundingSet") == needed[path.stem]
    assert values(path, "ProtectSystem") == ["strict"]
    assert values(path, "NoNewPrivileges") == ["yes"]
