"""A demo may remove what a demo left, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from headwater.demo.workplace import Workplace
from headwater.rules.errors import Refused
from headwater.settings import load


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def test_an_empty_folder_is_taken_and_its_settings_load(place: Workplace) -> None:
    place.require_ours()
    place.prepare({}, {})
    settings = load(environment={}, folder=place.folder)
    assert settings.sources["demo"].root == place.media
    assert settings.sources["demo"].delete_hold_seconds == 5
    assert settings.state_folder == place.state
    assert settings.dataset == settings.sources["demo"].dataset == "demo"


def test_an_earlier_demo_is_cleared(place: Workplace) -> None:
    place.prepare({}, {})
    (place.media / "old.jpg").write_bytes(b"old")
    place.require_ours()
    assert place.clear()
    assert list(place.folder.iterdir()) == []
    assert not place.clear()


def test_a_settings_file_that_somebody_edited_is_left_alone(place: Workplace) -> None:
    place.prepare({}, {})
    place.settings_file.write_text(place.settings_file.read_text() + '\n[sources.mine]\nroot = "/mnt"\n')
    tomllib.loads(place.settings_file.read_text())
    with pytest.raises(Refused, match="is not a demo's"):
        place.require_ours()


def test_a_state_folder_without_settings_is_left_alone(place: Workplace) -> None:
    place.state.mkdir()
    with pytest.raises(Refused, match="is not a demo's"):
        place.require_ours()


def test_somebody_elses_settings_are_left_alone(place: Workplace) -> None:
    place.settings_file.write_text('site = "lab"\n')
    with pytest.raises(Refused, match="another folder"):
        place.require_ours()


def test_a_state_folder_that_another_source_uses_is_left_alone(place: Workplace) -> None:
    place.prepare({}, {})
    (place.state / "sources" / "mine").mkdir(parents=True)
    with pytest.raises(Refused, match="is not a demo's"):
        place.require_ours()


def test_ports_that_are_not_the_usual_ones_stand_in_the_settings(place: Workplace) -> None:
    place.prepare({"kafka": 29092, "s3": 27070}, {"port": 28080})
    assert load(environment={}, folder=place.folder).stack.ports() == {"kafka": 29092, "s3": 27070}
    place.require_ours()
