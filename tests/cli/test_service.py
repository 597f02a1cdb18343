"""What a process shows of itself while it runs."""

from __future__ import annotations

import re
import shutil
import urllib.request
from pathlib import Path

import pytest

from headwater.cli.service import serving
from headwater.observe.http import Health
from headwater.settings import load


def exported(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        found = re.search(rf"^{name} (\S+)$", response.read().decode(), re.MULTILINE)
    assert found is not None, f"{name} is not exported"
    return float(found[1])


def test_the_room_on_the_disk_of_the_state_folder_is_measured_when_asked(tmp_path: Path) -> None:
    settings = load(environment={"HEADWATER_STATE_FOLDER": str(tmp_path)}, folder=tmp_path)
    with serving(settings, "agent-films", lambda: Health(True, "running")) as server:
        free = exported(server.url, "headwater_state_free_bytes")
        assert exported(server.url, "headwater_state_size_bytes") == shutil.disk_usage(tmp_path).total
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)


def test_a_state_folder_that_is_gone_has_no_room(tmp_path: Path) -> None:
    state = tmp_path / "state"
    settings = load(environment={"HEADWATER_STATE_FOLDER": str(state)}, folder=tmp_path)
    with serving(settings, "agent-films", lambda: Health(True, "running")) as server:
        shutil.rmtree(state)
        assert exported(server.url, "headwater_state_free_bytes") == 0
        assert exported(server.url, "headwater_state_size_bytes") == 0
